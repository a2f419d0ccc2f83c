//! What arrives, in which order and form.

use outbox_sinks::{Delivery, Event, Position};
use outbox_tests::servers::{Proxy, shared};
use serde_json::json;

use super::{
    assert_complete_and_in_order, batch, codes, connector, event, header, open, stored, stream,
};

#[tokio::test]
async fn five_thousand_events_arrive_complete_and_in_order() {
    let server = shared::nats().await;
    let jetstream = server.jetstream().await;
    stream(&jetstream, "FULL", |_| {}).await;
    let connector = connector(&server.url(), json!({ "subject": "FULL.{type}" }));
    connector.probe().await.unwrap();
    let mut sink = open(&*connector).await.unwrap();
    let events: Vec<_> = (0..5_000)
        .map(|seq| event(seq, &format!("node/{}", seq * seq % 97)))
        .collect();
    for chunk in events.chunks(1_000) {
        let delivery = sink.deliver(&batch(chunk.to_vec())).await.unwrap();
        assert_eq!(delivery, Delivery::All);
    }
    let messages = stored(&jetstream, "FULL").await;
    assert_eq!(messages.len(), events.len());
    assert_complete_and_in_order(&messages, &events);
}

#[tokio::test]
async fn with_a_window_of_one_the_stream_has_the_outbox_order() {
    let server = shared::nats().await;
    let jetstream = server.jetstream().await;
    stream(&jetstream, "ONE", |_| {}).await;
    let settings = json!({ "subject": "ONE.{subject}", "window": 1 });
    let mut sink = open(&*connector(&server.url(), settings)).await.unwrap();
    let events: Vec<_> = (0..200)
        .map(|seq| event(seq, &format!("k{}", seq % 7)))
        .collect();
    let delivery = sink.deliver(&batch(events.clone())).await.unwrap();
    assert_eq!(delivery, Delivery::All);
    let messages = stored(&jetstream, "ONE").await;
    let ids: Vec<_> = messages.iter().map(|m| header(m, "event-id")).collect();
    assert_eq!(ids, events.iter().map(Event::id).collect::<Vec<_>>());
}

#[tokio::test]
async fn each_format_has_its_headers_and_body() {
    let server = shared::nats().await;
    let jetstream = server.jetstream().await;
    let data = r#"{"n":1.10,"k":18446744073709551616}"#;
    let payload = format!(r#"{{"id":"evt_1","type":"node.up","subject":"node/7","data":{data}}}"#);
    let json_body = ("content-type", "application/json");
    for (format, headers) in [
        (
            "native",
            vec![("event-id", "evt_1"), ("event-type", "node.up"), json_body],
        ),
        (
            "cloudevents",
            vec![("content-type", "application/cloudevents+json")],
        ),
        (
            "cloudevents-binary",
            vec![
                ("ce-id", "evt_1"),
                ("ce-source", "/shop"),
                ("ce-subject", "node/7"),
                json_body,
            ],
        ),
    ] {
        let name = format!("FORMAT-{format}");
        stream(&jetstream, &name, |_| {}).await;
        let subject = format!("{name}.{{type}}");
        let settings =
            json!({ "subject": subject, "stream": name, "format": format, "source": "/shop" });
        let mut sink = open(&*connector(&server.url(), settings)).await.unwrap();
        let event = Event::new(Position::new(3, 4), "node.up", payload.clone());
        let delivery = sink.deliver(&batch(vec![event])).await.unwrap();
        assert_eq!(delivery, Delivery::All);
        let message = stored(&jetstream, &name).await.remove(0);
        assert_eq!(header(&message, "Nats-Msg-Id"), "evt_1");
        for (header_name, expected) in headers {
            assert_eq!(
                header(&message, header_name),
                expected,
                "{format}: {header_name}"
            );
        }
        assert_eq!(message.subject.as_str(), format!("{name}.node.up"));
        let body = std::str::from_utf8(&message.payload).unwrap();
        assert!(body.contains(data), "{body}");
    }
}

/// E2, E4.
#[tokio::test]
async fn an_illegal_subject_is_undeliverable_and_the_rest_flows_on_one_connection() {
    let server = shared::nats().await;
    let proxy = Proxy::start(server.addr()).await;
    let jetstream = server.jetstream().await;
    stream(&jetstream, "LEGAL", |_| {}).await;
    let url = format!("nats://{}", proxy.addr());
    let settings = json!({ "subject": "LEGAL.{subject}" });
    let mut sink = open(&*connector(&url, settings)).await.unwrap();
    let subjects = [
        "ok",
        "a b",
        "a\tb",
        "a\r\nPING",
        "*",
        ">",
        "a..b",
        ".a",
        "a.",
        "",
        "ok2",
    ];
    let events = (1..)
        .zip(subjects)
        .map(|(seq, subject)| event(seq, subject));
    let codes = codes(sink.deliver(&batch(events.collect())).await.unwrap());
    for (subject, code) in subjects.iter().zip(&codes) {
        let expected = match *subject {
            "ok" | "ok2" => "delivered",
            "" => "MISSING_FIELD",
            _ => "ILLEGAL_SUBJECT",
        };
        assert_eq!(code, expected, "{subject:?}");
    }
    assert_eq!(stored(&jetstream, "LEGAL").await.len(), 2);
    assert_eq!(proxy.accepted(), 1, "the server had no reason to hang up");
}
