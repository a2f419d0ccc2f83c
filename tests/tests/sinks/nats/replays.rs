//! Dead letters that are delivered again.

use std::time::Duration;

use outbox_sinks::Delivery;
use outbox_tests::servers::shared;
use serde_json::json;

use super::{batch, connector, event, header, open, stored, stream};

/// E12.
#[tokio::test]
async fn a_replay_within_the_deduplication_window_arrives_once_and_is_marked() {
    let server = shared::nats().await;
    let jetstream = server.jetstream().await;
    for (format, id, body) in [
        ("native", "event-id", r#","replay":1}"#),
        ("cloudevents", "", r#","replay":1,"#),
        ("cloudevents-binary", "ce-id", ""),
    ] {
        let name = format!("REPLAY-{format}");
        stream(&jetstream, &name, |config| {
            config.duplicate_window = Duration::from_secs(120);
        })
        .await;
        let settings = json!({ "subject": format!("{name}.{{type}}"), "format": format });
        let mut sink = open(&*connector(&server.url(), settings)).await.unwrap();
        let first = event(1, "node/7");
        // Each twice, as after a lost answer.
        for count in [0, 0, 1, 1, 2, 2] {
            let again = batch(vec![first.clone().as_replay(count)]).apart();
            assert_eq!(sink.deliver(&again).await.unwrap(), Delivery::All);
        }
        let messages = stored(&jetstream, &name).await;
        let marks: Vec<_> = messages
            .iter()
            .map(|m| header(m, "outbox-replay"))
            .collect();
        assert_eq!(marks, ["", "1", "2"], "{format}");
        let replay = std::str::from_utf8(&messages[1].payload).unwrap();
        assert!(replay.contains(body), "{format}: {replay}");
        for message in &messages {
            if id.is_empty() {
                let body = std::str::from_utf8(&message.payload).unwrap();
                assert!(body.contains(r#""id":"evt_1""#), "{body}");
            } else {
                assert_eq!(header(message, id), "evt_1", "{format}");
            }
        }
        if format == "cloudevents-binary" {
            assert_eq!(header(&messages[1], "ce-replay"), "1");
        }
    }
}
