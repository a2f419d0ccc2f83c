//! Servers and their folders go with the process that started them, however it ends.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

#[tokio::test]
async fn no_server_and_no_file_outlives_a_killed_test_process() {
    let mut holder = Command::new(env!("CARGO_BIN_EXE_hold_servers"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the holder starts");
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let [postgres, nats, folder]: [&str; 3] = line
        .split_whitespace()
        .collect::<Vec<_>>()
        .try_into()
        .expect("the holder prints three");
    let ports: [SocketAddr; 2] = [postgres.parse().unwrap(), nats.parse().unwrap()];
    assert!(ports.iter().all(|port| TcpStream::connect(port).is_ok()));
    assert!(Path::new(folder).exists());

    holder.kill().unwrap();
    holder.wait().unwrap();

    let deadline = Instant::now() + Duration::from_secs(10);
    let left = || Path::new(folder).exists() || ports.iter().any(|p| TcpStream::connect(p).is_ok());
    while left() {
        assert!(Instant::now() < deadline, "something is left of {line}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_start_shows_the_end_of_its_log() {
    let start = outbox_tests::servers::Nats::options()
        .line("no_such_setting: {")
        .start();
    let panic = tokio::spawn(start)
        .await
        .expect_err("a server with a wrong setting cannot start");
    let message = panic
        .into_panic()
        .downcast::<String>()
        .expect("a panic has a message");
    assert!(message.contains("nats ended while it started"), "{message}");
    assert!(
        message.contains("Parse error on line"),
        "the log is missing: {message}"
    );
}
