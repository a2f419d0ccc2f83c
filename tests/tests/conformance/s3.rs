//! The built-in sink for S3. (The server makes a bucket that is missing, so a place that does not
//! exist can't be shown here: tests/sinks/s3 does, with a scripted server.)

use std::net::SocketAddr;
use std::path::PathBuf;

use outbox_sinks::conformance::{Destination, Stored};
use outbox_sinks::s3::Kind;
use outbox_sinks::{Connector, SinkKind, async_trait};
use outbox_tests::servers::S3;
use serde_json::json;
use tokio::sync::Mutex;

use crate::{lines, place};

const WRONG_KEY: &str = "wrong-sesame";

/// A bucket each.
pub(crate) struct Buckets {
    server: Mutex<S3>,
    addr: SocketAddr,
    access_key: &'static str,
    secret_key: &'static str,
}

impl Buckets {
    pub(crate) async fn start() -> Self {
        let server = S3::start().await;
        Self {
            addr: server.addr(),
            access_key: server.access_key(),
            secret_key: server.secret_key(),
            server: Mutex::new(server),
        }
    }

    fn connector(&self, bucket: &str, addr: SocketAddr, secret_key: &str) -> Box<dyn Connector> {
        let settings = json!({
            "bucket": bucket,
            "endpoint": format!("http://{addr}"),
            "region": "eu-central-1",
            "access_key_id": self.access_key,
            "secret_access_key": secret_key,
        });
        let settings = serde_json::from_value(settings).expect("the settings are right");
        Kind::connector("test", settings).expect("the settings are right")
    }
}

#[async_trait]
impl Destination for Buckets {
    type Place = String;

    async fn fresh(&self) -> String {
        let bucket = place::name("conformance");
        self.server.lock().await.create_bucket(&bucket);
        bucket
    }

    fn connector(&self, bucket: &String, via: Option<SocketAddr>) -> Box<dyn Connector> {
        self.connector(bucket, via.unwrap_or(self.addr), self.secret_key)
    }

    /// Object by object, in the order of their names, which is that of the ranges. What was
    /// delivered apart from the flow has objects of its own.
    async fn stored(&self, bucket: &String) -> Vec<Stored> {
        let bucket = self.server.lock().await.root().join(bucket);
        let folder = std::fs::read_dir(&bucket).expect("a bucket can be read");
        let paths = folder.map(|entry| entry.expect("a folder can be read").path());
        let mut objects: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "zst"))
            .collect();
        objects.sort();
        let read = |path: &PathBuf| {
            let body = std::fs::read(path).expect("an object can be read");
            lines::all(&zstd::decode_all(&*body).expect("an object is compressed"))
        };
        objects.iter().flat_map(read).collect()
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.addr)
    }

    /// It lives in this process: its connections are cut, and it comes back with its files.
    async fn crash(&self) -> bool {
        let mut server = self.server.lock().await;
        server.stop().await;
        server.start_again().await;
        true
    }

    fn denied(&self, bucket: &String) -> Option<Box<dyn Connector>> {
        Some(self.connector(bucket, self.addr, WRONG_KEY))
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.secret_key.to_owned(), WRONG_KEY.to_owned()]
    }
}
