//! Servers that die, hang, are full or take no writes; answers that are lost.

use std::time::Duration;

use outbox_sinks::{Delivery, ErrorKind, SinkError};
use outbox_tests::servers::{Mode, Proxy, Redis, shared};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{batch, connector, events, expected, ids, open, sink, sized};

fn assert_outage(outcome: Result<Delivery, SinkError>) {
    let error = outcome.expect_err("it was not delivered");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn a_killed_server_is_an_outage_and_the_sink_goes_on_when_it_is_back() {
    let mut redis = Redis::start().await;
    let connector = connector(&redis.url(), json!({ "stream": "killed" }));
    let mut sink = open(&*connector).await.unwrap();
    let all = events(20);
    let (first, second) = all.halves().unwrap();
    assert_eq!(sink.deliver(&first).await.unwrap(), Delivery::All);
    redis.kill().await;
    for _ in 0..3 {
        assert_outage(sink.deliver(&second).await);
    }
    let error = connector.probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    redis.start_again().await;
    assert_eq!(sink.deliver(&second).await.unwrap(), Delivery::All);
    assert_eq!(ids(&redis, "killed").await, expected(&all));
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_within_the_deliverys_time() {
    let redis = Redis::start().await;
    let mut sink = sink(&redis.url(), "hung").await;
    redis.pause();
    let begun = Instant::now();
    assert_outage(sink.deliver(&events(3)).await);
    assert!(begun.elapsed() < Duration::from_secs(4));
    redis.resume();
    assert_eq!(sink.deliver(&events(3)).await.unwrap(), Delivery::All);
}

/// The entries were stored, the word of it is lost: they are repeated, in order.
#[tokio::test]
async fn an_answer_that_was_lost_means_a_repetition_and_no_gap() {
    let redis = shared::redis().await;
    let proxy = Proxy::start(redis.addr()).await;
    let settings = json!({ "stream": "lost", "response_timeout": "300ms" });
    let url = format!("redis://{}", proxy.addr());
    let mut sink = open(&*connector(&url, settings)).await.unwrap();
    proxy.set(Mode::HoldAnswers);
    assert_outage(sink.deliver(&events(10)).await);
    proxy.cut();
    proxy.set(Mode::Pass);
    assert_eq!(sink.deliver(&events(10)).await.unwrap(), Delivery::All);
    let twice = [expected(&events(10)), expected(&events(10))].concat();
    assert_eq!(ids(redis, "lost").await, twice);
}

#[tokio::test]
async fn nothing_is_sent_behind_the_back_of_a_delivery_that_failed() {
    let redis = shared::redis().await;
    let proxy = Proxy::start(redis.addr()).await;
    let url = format!("redis://{}", proxy.addr());
    let mut sink = sink(&url, "back").await;
    let all = batch((1..=500).map(|seq| sized(seq, "a", 2_000)).collect());
    proxy.set(Mode::TruncateAfter(100_000));
    assert_outage(sink.deliver(&all).await);
    proxy.set(Mode::Pass);
    sleep(Duration::from_millis(500)).await;
    assert!(
        ids(redis, "back").await.is_empty(),
        "half a transaction is none"
    );
    assert_eq!(
        proxy.accepted(),
        1,
        "the client must not reconnect by itself"
    );
    assert_eq!(sink.deliver(&all).await.unwrap(), Delivery::All);
    assert_eq!(ids(redis, "back").await, expected(&all));
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_no_outage() {
    let redis = shared::redis().await;
    let proxy = Proxy::start(redis.addr()).await;
    let mut sink = sink(&format!("redis://{}", proxy.addr()), "idle").await;
    assert_eq!(sink.deliver(&events(1)).await.unwrap(), Delivery::All);
    proxy.cut();
    sleep(Duration::from_millis(5_200)).await;
    assert_eq!(sink.deliver(&events(1)).await.unwrap(), Delivery::All);
}

#[tokio::test]
async fn a_full_memory_is_an_outage_of_the_whole_batch() {
    let redis = Redis::start().await;
    let mut sink = sink(&redis.url(), "full.{subject}").await;
    redis.run::<()>("CONFIG SET maxmemory 1").await;
    assert_outage(sink.deliver(&events(5)).await);
    redis.run::<()>("CONFIG SET maxmemory 0").await;
    assert_eq!(sink.deliver(&events(5)).await.unwrap(), Delivery::All);
}

#[tokio::test]
async fn a_replica_is_an_outage() {
    let redis = Redis::start().await;
    let connector = connector(&redis.url(), json!({ "stream": "copy" }));
    let mut sink = open(&*connector).await.unwrap();
    redis.run::<()>("REPLICAOF 127.0.0.1 1").await;
    assert_outage(sink.deliver(&events(5)).await);
    let error = connector.probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    redis.run::<()>("REPLICAOF NO ONE").await;
    assert_eq!(sink.deliver(&events(5)).await.unwrap(), Delivery::All);
    assert_eq!(ids(&redis, "copy").await, expected(&events(5)));
}

#[tokio::test]
async fn a_server_with_too_many_clients_or_too_few_replicas_is_an_outage() {
    let redis = Redis::options().line("maxclients 2").start().await;
    let _held = [redis.connection().await, redis.connection().await];
    let connector = connector(&redis.url(), json!({ "password": "any" }));
    let error = connector.probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");

    let redis = Redis::start().await;
    let mut sink = sink(&redis.url(), "few").await;
    redis.run::<()>("CONFIG SET min-replicas-to-write 1").await;
    assert_outage(sink.deliver(&events(2)).await);
}
