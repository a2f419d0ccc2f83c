//! Messages that are too large, and streams that are full.

use std::collections::HashSet;

use async_nats::jetstream::stream::DiscardPolicy;
use outbox_sinks::{Delivery, ErrorKind, Event, Position, Verdict};
use outbox_tests::servers::{Nats, shared};
use serde_json::json;

use super::{batch, codes, connector, event, open, sized, stored, stream};

/// E17, both limits.
#[tokio::test]
async fn what_is_too_large_is_undeliverable_with_size_and_limit_and_the_rest_flows() {
    let server = Nats::options().max_payload(4_096).start().await;
    let jetstream = server.jetstream().await;
    stream(&jetstream, "SMALL", |config| {
        config.max_message_size = 2_048;
    })
    .await;
    let settings = json!({ "subject": "SMALL.{type}" });
    let mut sink = open(&*connector(&server.url(), settings)).await.unwrap();
    let sizes = (0..6_000).step_by(7);
    let events = sizes.zip(0..).map(|(bytes, seq)| sized(seq, "same", bytes));
    let Delivery::Each(verdicts) = sink.deliver(&batch(events.collect())).await.unwrap() else {
        panic!("some are too large")
    };
    let is_delivered = |verdict: &&Verdict| **verdict == Verdict::Delivered;
    let delivered = verdicts.iter().take_while(is_delivered).count();
    let mut limits = HashSet::new();
    for verdict in &verdicts[delivered..] {
        let Verdict::Undeliverable(refusal) = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!(refusal.code(), "TOO_LARGE");
        let named = ["2048", "4096"].into_iter();
        limits.extend(named.filter(|limit| refusal.reason().contains(limit)));
    }
    assert_eq!(limits.len(), 2, "both limits were met");
    let messages = stored(&jetstream, "SMALL").await;
    assert_eq!(messages.len(), delivered);
    // The size we name is the one that the server counts.
    let Verdict::Undeliverable(first) = &verdicts[delivered] else {
        panic!("checked above")
    };
    let size: usize = first.reason().split(' ').next().unwrap().parse().unwrap();
    assert!((2_049..2_056).contains(&size), "{size}");
    // The connection did not suffer.
    let delivery = sink
        .deliver(&batch(vec![event(9_999, "same")]))
        .await
        .unwrap();
    assert_eq!(delivery, Delivery::All);
}

/// To the byte: what is one byte smaller is stored, also by the server's own reckoning.
#[tokio::test]
async fn headers_over_64_kib_are_undeliverable_and_the_rest_flows() {
    let server = shared::nats().await;
    let jetstream = server.jetstream().await;
    stream(&jetstream, "HEADERS", |_| {}).await;
    let settings = json!({ "subject": "HEADERS.{type}", "format": "cloudevents" });
    let mut sink = open(&*connector(&server.url(), settings)).await.unwrap();
    // Besides the id: the line's end, `Nats-Msg-Id: `, and the content type.
    let lengths = 65_400..65_535;
    let events = lengths.clone().zip(0..).map(|(length, seq)| {
        let id = "x".repeat(length - 6) + &format!("{seq:06}");
        let payload = json!({ "id": id, "type": "node.up", "subject": "same" });
        Event::new(Position::new(1, seq), "node.up", payload.to_string())
    });
    let codes = codes(sink.deliver(&batch(events.collect())).await.unwrap());
    let delivered = codes.iter().take_while(|code| *code == "delivered").count();
    assert!((1..lengths.len() - 1).contains(&delivered), "{delivered}");
    assert!(codes[delivered..].iter().all(|code| code == "TOO_LARGE"));
    let messages = stored(&jetstream, "HEADERS").await;
    assert_eq!(messages.len(), delivered);
    let largest = messages.last().unwrap().headers.iter();
    let lines = largest.flat_map(|(name, values)| {
        let name: &str = name.as_ref();
        values
            .iter()
            .map(move |value| name.len() + value.as_str().len() + 4)
    });
    assert_eq!(lines.sum::<usize>() + "NATS/1.0\r\n\r\n".len(), 65_535);
}

/// E19.
#[tokio::test]
async fn a_full_stream_is_an_outage_that_keeps_what_got_through() {
    let server = shared::nats().await;
    let jetstream = server.jetstream().await;
    stream(&jetstream, "FILLED", |config| {
        config.max_messages = 3;
        config.discard = DiscardPolicy::New;
    })
    .await;
    let settings = json!({ "subject": "FILLED.{type}" });
    let mut sink = open(&*connector(&server.url(), settings)).await.unwrap();
    let events = batch((0..5).map(|seq| event(seq, "one")).collect());
    let codes = codes(sink.deliver(&events).await.unwrap());
    let (yes, no) = ("delivered", "unconfirmed");
    assert_eq!(codes, [yes, yes, yes, no, no]);
    let rest = events.slice(3..5).unwrap();
    let error = sink.deliver(&rest).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.advice().unwrap().contains("full"), "{error:?}");
    let filled = jetstream.get_stream("FILLED").await.unwrap();
    filled.purge().await.unwrap();
    assert_eq!(sink.deliver(&rest).await.unwrap(), Delivery::All);
}

/// OB-4: a full stream refuses the large event and would take the small one after it.
#[tokio::test]
async fn a_small_event_does_not_overtake_a_large_one_of_its_key_that_was_refused() {
    let server = shared::nats().await;
    let jetstream = server.jetstream().await;
    stream(&jetstream, "OVERTAKE", |config| {
        config.max_bytes = 4_000;
        config.discard = DiscardPolicy::New;
    })
    .await;
    let settings = json!({ "subject": "OVERTAKE.{type}" });
    let mut sink = open(&*connector(&server.url(), settings)).await.unwrap();
    let events = vec![event(1, "other"), sized(2, "hot", 10_000), event(3, "hot")];
    let codes = codes(sink.deliver(&batch(events)).await.unwrap());
    assert_eq!(codes, ["delivered", "unconfirmed", "unconfirmed"]);
    assert_eq!(stored(&jetstream, "OVERTAKE").await.len(), 1);
}
