//! Connections that break, and servers that die or hang.

use std::collections::HashSet;
use std::time::Duration;

use outbox_sinks::{Delivery, ErrorKind};
use outbox_tests::servers::{Mode, Nats, Proxy, shared};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    assert_complete_and_in_order, batch, codes, connector, event, header, open, sized, stored,
    stream,
};

/// E10: the messages were stored, the word of it is lost.
#[tokio::test]
async fn an_acknowledgement_that_was_lost_is_no_second_copy() {
    let server = shared::nats().await;
    let proxy = Proxy::start(server.addr()).await;
    let jetstream = server.jetstream().await;
    stream(&jetstream, "LOST", |_| {}).await;
    let url = format!("nats://{}", proxy.addr());
    let settings = json!({ "subject": "LOST.{type}", "ack_timeout": "500ms" });
    let mut sink = open(&*connector(&url, settings)).await.unwrap();
    let events = batch((0..20).map(|seq| event(seq, &format!("k{seq}"))).collect());
    proxy.set(Mode::HoldAnswers);
    let error = sink.deliver(&events).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(stored(&jetstream, "LOST").await.len(), 20);
    proxy.cut();
    proxy.set(Mode::Pass);
    assert_eq!(sink.deliver(&events).await.unwrap(), Delivery::All);
    assert_eq!(stored(&jetstream, "LOST").await.len(), 20);
}

#[tokio::test]
async fn nothing_is_sent_behind_the_back_of_a_delivery_that_failed() {
    let server = shared::nats().await;
    let proxy = Proxy::start(server.addr()).await;
    let jetstream = server.jetstream().await;
    stream(&jetstream, "BACK", |_| {}).await;
    let url = format!("nats://{}", proxy.addr());
    let mut sink = open(&*connector(&url, json!({ "subject": "BACK.{type}" })))
        .await
        .unwrap();
    let events: Vec<_> = (0..1_000)
        .map(|seq| sized(seq, &format!("k{}", seq % 400), 500))
        .collect();
    proxy.set(Mode::TruncateAfter(100_000));
    let begun = Instant::now();
    let outcome = sink.deliver(&batch(events.clone())).await;
    assert!(!matches!(outcome, Ok(Delivery::All)));
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "the loss is noticed at once"
    );
    proxy.set(Mode::Pass);
    sleep(Duration::from_millis(300)).await;
    let count = stored(&jetstream, "BACK").await.len();
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(stored(&jetstream, "BACK").await.len(), count);
    assert!(count < events.len());
    assert_eq!(
        proxy.accepted(),
        1,
        "the client must not reconnect by itself"
    );
    let delivery = sink.deliver(&batch(events.clone())).await.unwrap();
    assert_eq!(delivery, Delivery::All);
    assert_complete_and_in_order(&stored(&jetstream, "BACK").await, &events);
}

#[tokio::test]
async fn a_server_killed_in_the_middle_of_a_batch_loses_and_reorders_nothing() {
    let mut server = Nats::start().await;
    stream(&server.jetstream().await, "KILLED", |_| {}).await;
    let proxy = Proxy::start(server.addr()).await;
    let url = format!("nats://{}", proxy.addr());
    let settings = json!({ "subject": "KILLED.{type}", "window": 16 });
    let mut sink = open(&*connector(&url, settings)).await.unwrap();
    // Slow enough to be in the middle when the server dies.
    proxy.set(Mode::Latency(Duration::from_millis(5)));
    let events: Vec<_> = (0..2_000)
        .map(|seq| event(seq, &format!("k{}", seq % 31)))
        .collect();
    let whole = batch(events.clone());
    let (outcome, ()) = tokio::join!(sink.deliver(&whole), async {
        sleep(Duration::from_millis(300)).await;
        server.kill().await;
    });
    let codes = codes(outcome.expect("something got through before"));
    let delivered = codes.iter().take_while(|code| *code == "delivered").count();
    assert!((1..2_000).contains(&delivered), "{delivered}");
    proxy.set(Mode::Pass);
    let rest = whole.slice(delivered..2_000).unwrap();
    let error = sink.deliver(&rest).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    server.start_again().await;
    assert_eq!(sink.deliver(&rest).await.unwrap(), Delivery::All);
    let messages = stored(&server.jetstream().await, "KILLED").await;
    assert_complete_and_in_order(&messages, &events);
}

#[tokio::test]
async fn a_server_that_hangs_is_an_outage_within_the_deadline() {
    let server = Nats::start().await;
    let jetstream = server.jetstream().await;
    stream(&jetstream, "HUNG", |_| {}).await;
    let connector = connector(&server.url(), json!({ "subject": "HUNG.{type}" }));
    let mut sink = open(&*connector).await.unwrap();
    let events = (0..1_000).map(|seq| sized(seq, &format!("k{seq}"), 3_000));
    let events = batch(events.collect());
    server.pause();
    for _ in 0..2 {
        let begun = Instant::now();
        let error = sink.deliver(&events).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "{:?}",
            begun.elapsed()
        );
    }
    server.resume();
    assert_eq!(sink.deliver(&events).await.unwrap(), Delivery::All);
    let messages = stored(&jetstream, "HUNG").await;
    let ids: HashSet<_> = messages.iter().map(|m| header(m, "event-id")).collect();
    assert_eq!(ids.len(), 1_000);
}
