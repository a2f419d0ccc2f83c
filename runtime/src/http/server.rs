//! Accepting connections: not too many, none for long, one answer each.
//!
//! A client that says nothing, half of a request, or never reads its answer holds one
//! place for a few seconds, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::debug;

/// The pause after a connection could not be accepted: there may be no file left for it.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// What a request line with its headers may take of memory.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections at a time; the next ones wait.
    pub(super) connections: usize,
    /// Until a request's head has come.
    pub(super) head: Duration,
    /// From the beginning of a connection to its end.
    pub(super) whole: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head: Duration::from_secs(3),
            whole: Duration::from_secs(10),
        }
    }
}

/// Answers for ever.
pub(super) async fn serve(listener: &TcpListener, router: &Router, limits: Limits) {
    let places = Arc::new(Semaphore::new(limits.connections));
    // Dropped with this future: then every connection ends.
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!(%error, "can't accept a connection");
                sleep(ACCEPT_RETRY_INTERVAL).await;
                continue;
            }
        };
        let router = router.clone();
        connections.spawn(async move {
            let _place = place;
            match timeout(limits.whole, answer(stream, router, limits.head)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "a connection ended early"),
                Err(_) => debug!("a connection took too long"),
            }
        });
    }
}

/// Answers one request, and closes.
async fn answer(stream: TcpStream, router: Router, head: Duration) -> Result<(), hyper::Error> {
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(MAX_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::task::AbortOnDropHandle;

    const SHORT: Limits = Limits {
        connections: 2,
        head: Duration::from_millis(300),
        whole: Duration::from_secs(1),
    };

    async fn server(limits: Limits) -> (SocketAddr, AbortOnDropHandle<()>) {
        let large = "x".repeat(64 * 1024 * 1024);
        let router = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/large", get(|| async { large }))
            .route("/slow", get(std::future::pending::<&str>));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        #[expect(clippy::disallowed_methods, reason = "aborted with its handle")]
        let task = tokio::spawn(async move { serve(&listener, &router, limits).await });
        (address, AbortOnDropHandle::new(task))
    }

    async fn asked(address: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn get_root(address: SocketAddr) -> String {
        let mut stream = asked(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut answer = String::new();
        let reading = stream.read_to_string(&mut answer);
        let read = timeout(Duration::from_secs(30), reading).await;
        read.expect("an answer comes in time").unwrap();
        answer
    }

    #[tokio::test]
    async fn clients_that_hang_cost_others_a_little_time_and_nothing_more() {
        let (address, _server) = server(SHORT).await;
        let mut hanging = Vec::new();
        for request in [
            "",
            "GET / HT",
            "GET / HTTP/1.1\r\nhost: x\r\n",
            "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n",
            "GET /large HTTP/1.1\r\nhost: x\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n",
        ] {
            for _ in 0..2 {
                hanging.push(asked(address, request).await);
            }
        }
        assert!(get_root(address).await.ends_with("here"));
        drop(hanging);
    }

    #[tokio::test]
    async fn a_connection_is_closed_after_its_answer() {
        let (address, _server) = server(SHORT).await;
        let answer = get_root(address).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }

    #[tokio::test]
    async fn the_end_of_the_server_ends_every_connection() {
        let (address, server) = server(Limits::default()).await;
        let mut waiting = asked(address, "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
        get_root(address).await;
        drop(server);
        let mut rest = Vec::new();
        let ended = waiting.read_to_end(&mut rest).await;
        assert!(ended.is_err() || rest.is_empty());
    }
}
