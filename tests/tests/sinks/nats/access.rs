//! Who may do what, and streams that are missing.

use std::time::Duration;

use outbox_sinks::{Delivery, ErrorKind};
use outbox_tests::servers::{Nats, shared};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{batch, connector, event, open, stream};

#[tokio::test]
async fn a_wrong_password_or_token_is_misconfigured_and_not_shown() {
    let server = Nats::options().login("outbox", "right").start().await;
    for settings in [
        json!({ "user": "outbox", "password": "hush-hush" }),
        json!({ "token": "hush-hush" }),
        json!({}),
    ] {
        let error = connector(&server.url(), settings)
            .probe()
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(!format!("{error:?}").contains("hush-hush"), "{error:?}");
    }
    let right = json!({
        "user": "outbox", "password": "right",
        "stream": "E", "create_stream": { "subjects": ["events.>"] },
    });
    connector(&server.url(), right).probe().await.unwrap();
}

/// A server that answers every ping, and greets with these words.
async fn greeting(info: &'static str) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut lines = BufStream::new(stream);
            let greeting = format!("INFO {info}\r\n");
            lines.write_all(greeting.as_bytes()).await.unwrap();
            lines.flush().await.unwrap();
            let mut line = String::new();
            while lines
                .read_line(&mut line)
                .await
                .is_ok_and(|bytes| bytes > 0)
            {
                if line.starts_with("PING") {
                    lines.write_all(b"PONG\r\n").await.unwrap();
                    lines.flush().await.unwrap();
                }
                line.clear();
            }
        }
    });
    (url, server)
}

/// Else every event were larger than what the server takes, and would be given up at once.
#[tokio::test]
async fn a_server_that_does_not_say_what_it_takes_is_misconfigured() {
    let (url, _server) = greeting(r#"{"server_id":"x","version":"2.10.0","headers":true}"#).await;
    let error = connector(&url, json!({})).probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.advice().unwrap().contains("max_payload"), "{error:?}");
}

#[tokio::test]
async fn a_missing_permission_is_misconfigured_and_says_which() {
    let limited = r#"permissions: { publish: ["$JS.API.STREAM.>"], subscribe: ["_INBOX.>"] }"#;
    let users = format!(
        "authorization {{ users = [ {{ user: admin, password: a }}, {{ user: outbox, password: b, {limited} }} ] }}"
    );
    let server = Nats::options()
        .line(&users)
        .line("no_auth_user: admin")
        .start()
        .await;
    stream(&server.jetstream().await, "events", |_| {}).await;
    let settings = json!({ "user": "outbox", "password": "b", "ack_timeout": "300ms" });
    let mut sink = open(&*connector(&server.url(), settings)).await.unwrap();
    let error = sink.deliver(&batch(vec![event(1, "a")])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.chain().contains("events.node.up"), "{error:?}");
}

#[tokio::test]
async fn a_missing_stream_is_misconfigured_until_somebody_creates_it() {
    let server = shared::nats().await;
    let jetstream = server.jetstream().await;
    let anonymous = connector(&server.url(), json!({ "subject": "LATER.{type}" }));
    let named = json!({ "subject": "LATER.{type}", "stream": "LATER" });
    let named = connector(&server.url(), named);
    for connector in [&anonymous, &named] {
        let probed = connector.probe().await.unwrap_err();
        let opened = open(&**connector).await.unwrap_err();
        assert_eq!(probed.kind(), ErrorKind::Misconfigured, "{probed:?}");
        assert_eq!(opened.kind(), ErrorKind::Misconfigured, "{opened:?}");
    }
    stream(&jetstream, "LATER", |_| {}).await;
    let events = batch(vec![event(1, "a")]);
    for connector in [&anonymous, &named] {
        connector.probe().await.unwrap();
        let mut sink = open(&**connector).await.unwrap();
        assert_eq!(sink.deliver(&events).await.unwrap(), Delivery::All);
    }
    let mut sink = open(&*anonymous).await.unwrap();
    jetstream.delete_stream("LATER").await.unwrap();
    for _ in 0..2 {
        let error = sink.deliver(&events).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    }
    stream(&jetstream, "LATER", |_| {}).await;
    assert_eq!(sink.deliver(&events).await.unwrap(), Delivery::All);
}

#[tokio::test]
async fn a_stream_is_created_by_opening_and_not_by_probing() {
    let server = shared::nats().await;
    let jetstream = server.jetstream().await;
    let settings = json!({
        "subject": "MADE.{type}", "stream": "MADE",
        "create_stream": {
            "subjects": ["MADE.>"], "storage": "memory", "max_age": "1h", "duplicate_window": "5m",
        },
    });
    let connector = connector(&server.url(), settings);
    connector.probe().await.unwrap();
    assert!(jetstream.get_stream("MADE").await.is_err());
    let mut sink = open(&*connector).await.unwrap();
    let delivery = sink.deliver(&batch(vec![event(1, "a")])).await.unwrap();
    assert_eq!(delivery, Delivery::All);
    let made = jetstream.get_stream("MADE").await.unwrap();
    let config = &made.cached_info().config;
    assert_eq!(config.duplicate_window, Duration::from_secs(300));
    assert_eq!(config.max_age, Duration::from_secs(3_600));
    open(&*connector).await.unwrap();
}

#[tokio::test]
async fn a_stream_with_other_subjects_is_misconfigured() {
    let server = shared::nats().await;
    stream(&server.jetstream().await, "OTHER", |_| {}).await;
    let settings = json!({ "subject": "NOTOTHER.{type}", "stream": "OTHER" });
    let error = open(&*connector(&server.url(), settings))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
}
