//! Each mode, in front of a server that sends back what it gets.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use outbox_tests::servers::{Mode, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

const PATIENCE: Duration = Duration::from_millis(200);
const DEADLINE: Duration = Duration::from_secs(10);

/// A server that echoes; what each connection got is reported when it ends.
async fn echo() -> (SocketAddr, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (report, reports) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let report = report.clone();
            tokio::spawn(async move {
                let (mut got, mut piece) = (Vec::new(), [0; 1024]);
                while let Ok(count @ 1..) = stream.read(&mut piece).await {
                    got.extend_from_slice(&piece[..count]);
                    if stream.write_all(&piece[..count]).await.is_err() {
                        break;
                    }
                }
                report.send(got).ok();
            });
        }
    });
    (addr, reports)
}

async fn say(stream: &mut TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(text).await?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// What is left to read until the connection ends, which must be soon.
async fn rest(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut rest = Vec::new();
    let read = timeout(DEADLINE, stream.read_to_end(&mut rest));
    read.await.expect("the connection ends").map(|_| rest)
}

/// What the server got on a connection that has ended.
async fn got(reports: &mut mpsc::UnboundedReceiver<Vec<u8>>) -> Vec<u8> {
    timeout(DEADLINE, reports.recv())
        .await
        .expect("the server sees the end")
        .unwrap()
}

async fn start() -> (Proxy, TcpStream, mpsc::UnboundedReceiver<Vec<u8>>) {
    let (addr, reports) = echo().await;
    let proxy = Proxy::start(addr).await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(say(&mut stream, b"passes").await.unwrap(), b"passes");
    (proxy, stream, reports)
}

#[tokio::test]
async fn latency_delays_both_ways() {
    let (proxy, mut stream, _reports) = start().await;
    proxy.set(Mode::Latency(Duration::from_millis(100)));
    let started = Instant::now();
    assert_eq!(say(&mut stream, b"late").await.unwrap(), b"late");
    assert!(
        started.elapsed() >= Duration::from_millis(200),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_cut_ends_what_is_open_and_nothing_else() {
    let (proxy, mut stream, _reports) = start().await;
    proxy.cut();
    assert_eq!(
        rest(&mut stream).await.unwrap(),
        b"",
        "an open connection is closed"
    );
    let mut next = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(say(&mut next, b"again").await.unwrap(), b"again");
    assert_eq!(proxy.accepted(), 2);
}

#[tokio::test]
async fn refuse_closes_open_and_new_connections() {
    let (proxy, mut stream, _reports) = start().await;
    proxy.set(Mode::Refuse);
    assert_eq!(rest(&mut stream).await.unwrap(), b"");
    let mut next = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(rest(&mut next).await.unwrap(), b"");
    proxy.set(Mode::Pass);
    let mut last = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(say(&mut last, b"again").await.unwrap(), b"again");
}

#[tokio::test]
async fn reset_resets() {
    let (proxy, mut stream, _reports) = start().await;
    proxy.set(Mode::Reset);
    let error = rest(&mut stream).await.expect_err("a reset is an error");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn hang_forwards_nothing_until_it_ends() {
    let (proxy, mut stream, mut reports) = start().await;
    proxy.set(Mode::Hang);
    assert!(timeout(PATIENCE, say(&mut stream, b"held")).await.is_err());
    let mut new = TcpStream::connect(proxy.addr()).await.unwrap();
    assert!(timeout(PATIENCE, say(&mut new, b"new")).await.is_err());
    proxy.set(Mode::Pass);
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"held");
    drop(stream);
    assert_eq!(got(&mut reports).await, b"passesheld");
}

#[tokio::test]
async fn answers_are_lost_though_the_work_is_done() {
    let (proxy, mut stream, mut reports) = start().await;
    proxy.set(Mode::HoldAnswers);
    assert!(timeout(PATIENCE, say(&mut stream, b"work")).await.is_err());
    proxy.cut();
    assert_eq!(rest(&mut stream).await.unwrap(), b"", "no answer came");
    assert_eq!(got(&mut reports).await, b"passeswork");
}

#[tokio::test]
async fn truncation_delivers_exactly_so_many_bytes() {
    let (proxy, mut stream, mut reports) = start().await;
    proxy.set(Mode::TruncateAfter(4));
    stream.write_all(b"truncated").await.unwrap();
    let error = rest(&mut stream)
        .await
        .expect_err("the client sees a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(got(&mut reports).await, b"passestrun");
}

#[tokio::test]
async fn a_target_that_is_down_closes_the_connection() {
    let (addr, _) = echo().await;
    let nowhere = SocketAddr::from((addr.ip(), outbox_tests::servers::free_port()));
    let proxy = Proxy::start(nowhere).await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(rest(&mut stream).await.unwrap(), b"");
}
