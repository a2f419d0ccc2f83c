//! The servers that all other tests stand on: each starts, works, and keeps its data through
//! `kill -9`; the proxy fails as asked; and nothing outlives the tests.
#![cfg(test)]
#![allow(
    clippy::disallowed_methods,
    reason = "a test's runtime ends with the test, and every task of it"
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in the functions that its tests share"
)]

mod kafka;
mod lifetime;
mod nats;
mod postgres;
mod proxy;
mod redis;
mod s3;

use outbox_tests::servers;

#[tokio::test]
async fn lists_the_servers_it_uses() {
    let servers = servers::list().await;
    for server in &servers {
        println!("{server}");
    }
    let names: Vec<_> = servers.iter().map(|server| server.name).collect();
    let expected = [
        "Postgres",
        "Postgres",
        "Kafka",
        "NATS",
        "PgBouncer",
        "Redis",
        "S3",
    ];
    assert_eq!(names, expected);
}
