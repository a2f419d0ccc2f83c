//! The built-in sink for S3.

use std::net::SocketAddr;

use outbox_sinks::conformance::{Destination, Repetitions, Stored};
use outbox_sinks::s3::Kind;
use outbox_sinks::{Connector, SinkKind, async_trait};
use outbox_tests::servers::S3;
use serde_json::{Value, json};
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

    /// Object by object, in the order of the manifests' names, which is that of the ranges.
    async fn stored(&self, bucket: &String) -> Vec<Stored> {
        let bucket = self.server.lock().await.root().join(bucket);
        let Ok(folder) = std::fs::read_dir(bucket.join("_manifests")) else {
            return Vec::new();
        };
        let paths = folder.map(|entry| entry.expect("a folder can be read").path());
        let mut manifests: Vec<_> = paths
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .collect();
        manifests.sort();
        let mut stored = Vec::new();
        for manifest in manifests {
            let manifest = std::fs::read(manifest).expect("a manifest can be read");
            let manifest: Value = serde_json::from_slice(&manifest).expect("a manifest is JSON");
            let objects = manifest["objects"].as_array();
            for object in objects.expect("a manifest lists objects") {
                let key = object["key"].as_str().expect("an object has a key");
                let body = std::fs::read(bucket.join(key)).expect("a manifest names what exists");
                let body = zstd::decode_all(&*body).expect("an object is compressed");
                stored.extend(lines::all(&body));
            }
        }
        stored
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

    fn absent(&self) -> Option<Box<dyn Connector>> {
        Some(self.connector("no-such-bucket", self.addr, self.secret_key))
    }

    fn secrets(&self) -> Vec<String> {
        vec![self.secret_key.to_owned(), WRONG_KEY.to_owned()]
    }

    fn repetitions(&self) -> Repetitions {
        Repetitions::Merged
    }
}
