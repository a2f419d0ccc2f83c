//! An S3 API served in this process, from files in a folder (`s3s-fs`).
//!
//! It checks signatures and honours `If-None-Match`. It cannot be killed like a process: stopping
//! it cuts every connection at once, which is what a client sees of a kill, while an object that
//! was half received leaves nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::background;
use super::folder::Folder;
use super::port::free_port;

const ACCESS_KEY: &str = "test-access-key";
const SECRET_KEY: &str = "test-secret-key";

/// An S3 server on a port and with data of its own.
#[derive(Debug)]
pub struct S3 {
    // Declared before the folder: the server ends before its data goes.
    server: Option<JoinHandle<()>>,
    folder: Folder,
    port: u16,
}

impl S3 {
    /// Starts a server without buckets.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub async fn start() -> Self {
        let mut s3 = Self {
            server: None,
            folder: Folder::new("s3"),
            port: free_port(),
        };
        s3.start_again().await;
        s3
    }

    /// Where it listens; the same after a restart.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its URL, to be used with path-style requests. Any region will do.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// The access key that it accepts.
    pub fn access_key(&self) -> &'static str {
        ACCESS_KEY
    }

    /// The secret key that goes with it.
    pub fn secret_key(&self) -> &'static str {
        SECRET_KEY
    }

    /// The folder with one folder for each bucket, and in it a file for each object.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Creates an empty bucket.
    ///
    /// # Panics
    ///
    /// If it exists.
    pub fn create_bucket(&self, name: &str) {
        std::fs::create_dir(self.root().join(name)).expect("a new bucket can be made");
    }

    /// Stops listening and cuts every connection.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub async fn stop(&mut self) {
        let server = self
            .server
            .take()
            .expect("a server that runs can be stopped");
        server.abort();
        drop(server.await);
    }

    /// Starts the server after [`stop`](Self::stop): same port, same data.
    ///
    /// # Panics
    ///
    /// If it is running, or cannot listen.
    pub async fn start_again(&mut self) {
        assert!(self.server.is_none(), "S3 is running already");
        let files = FileSystem::new(self.root()).expect("a folder of ours can be served");
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = builder.build();
        let addr = self.addr();
        // The listener belongs to the runtime that it is made on.
        let listener = background::runtime()
            .spawn(async move { TcpListener::bind(addr).await })
            .await
            .expect("binding a port does not panic")
            .expect("the port of a test's S3 is free");
        self.server = Some(background::runtime().spawn(serve(listener, service)));
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

/// Accepts until it is aborted, which drops the set and with it every connection.
async fn serve(listener: TcpListener, service: S3Service) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let service = service.clone();
        // An object is written and then its metadata: a client that is killed in between must
        // not leave the one without the other, which no real S3 does. So what was begun goes on.
        let service = service_fn(move |request: Request<Incoming>| {
            let service = service.clone();
            let answer =
                background::runtime().spawn(async move { Service::call(&service, request).await });
            async {
                answer
                    .await
                    .expect("an answer of the test's S3 does not panic")
            }
        });
        connections.spawn(async move {
            let http = auto::Builder::new(TokioExecutor::new());
            // A client that hangs up in the middle is not this server's concern.
            drop(http.serve_connection(TokioIo::new(stream), service).await);
        });
        while connections.try_join_next().is_some() {}
    }
}
