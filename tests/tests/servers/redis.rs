//! Redis takes entries, and keeps them through kill -9.

use outbox_tests::servers::{Redis, shared};

async fn ids(redis: &Redis, stream: &str) -> Vec<String> {
    let entries = redis.entries(stream).await;
    let id = |entry: &outbox_tests::servers::RedisEntry| entry.field("id").to_owned();
    entries.iter().map(id).collect()
}

#[tokio::test]
async fn what_is_added_can_be_read_in_its_order() {
    let redis = shared::redis().await;
    for id in ["one", "two"] {
        redis.run::<String>(&format!("XADD read * id {id}")).await;
    }
    assert_eq!(ids(redis, "read").await, ["one", "two"]);
    assert!(redis.entries("nobody-wrote-here").await.is_empty());
}

#[tokio::test]
async fn acknowledged_entries_survive_kill_and_stop() {
    let mut redis = Redis::start().await;
    let url = redis.url();
    redis.run::<String>("XADD kept * id before-the-kill").await;
    redis.kill().await;
    assert!(
        tokio::net::TcpStream::connect(redis.addr()).await.is_err(),
        "a killed server does not listen"
    );
    redis.start_again().await;
    redis.run::<String>("XADD kept * id before-the-stop").await;
    redis.stop().await;
    redis.start_again().await;
    assert_eq!(redis.url(), url);
    let found = ids(&redis, "kept").await;
    assert_eq!(found, ["before-the-kill", "before-the-stop"]);
}

#[tokio::test]
async fn a_password_and_a_limit_can_be_set() {
    let options = Redis::options().password("secret").max_memory(50_000_000);
    let redis = options.no_log().start().await;
    let client = redis::Client::open(redis.url()).unwrap();
    let mut stranger = client.get_multiplexed_async_connection().await.unwrap();
    let refused: redis::RedisResult<()> = redis::cmd("PING").query_async(&mut stranger).await;
    assert_eq!(refused.unwrap_err().code(), Some("NOAUTH"));
    let limit: Vec<String> = redis.run("CONFIG GET maxmemory").await;
    assert_eq!(limit, ["maxmemory", "50000000"]);
    let log: Vec<String> = redis.run("CONFIG GET appendonly").await;
    assert_eq!(log, ["appendonly", "no"]);
}
