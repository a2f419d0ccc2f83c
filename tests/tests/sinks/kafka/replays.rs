//! Dead letters that are delivered again.

use outbox_sinks::Delivery;
use outbox_tests::servers::{KafkaMessage, shared};

use super::{PATIENT, batch, event, id_of, open, topic_name};

fn header(message: &KafkaMessage, name: &str) -> Option<String> {
    let found = message.headers.iter().find(|(header, _)| header == name);
    found.map(|(_, value)| String::from_utf8(value.clone()).expect("headers are text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_has_its_events_id_and_key_and_says_in_every_format_that_it_is_one() {
    let kafka = shared::kafka().await;
    for (format, body) in [
        ("native", r#""sequence":"7.1","replay":2}"#),
        ("cloudevents", r#","replay":2,"#),
        ("cloudevents-binary", "{\"n\":1.10,\"pad\":\"\"}"),
    ] {
        let topic = topic_name("replay");
        kafka.create_topic(&topic, 1).await;
        let settings = format!("topic = \"{topic}\"\nformat = \"{format}\"");
        let mut sink = open(&kafka.bootstrap(), &settings, PATIENT).await;
        let first = event(1, "node/7", 0);
        let again = batch(vec![first.clone().as_replay(2)]).apart();
        for batch in [batch(vec![first]), again] {
            let delivery = sink.deliver(&batch).await.expect("all is well");
            assert_eq!(delivery, Delivery::All);
        }
        let messages = kafka.messages(&topic).await;
        let [first, again] = messages.as_slice() else {
            panic!("both arrive: {messages:?}")
        };
        assert_eq!(id_of(first), id_of(again));
        assert_eq!(first.key, again.key);
        assert_eq!(header(first, "outbox-replay"), None);
        assert_eq!(header(again, "outbox-replay").as_deref(), Some("2"));
        let attribute = (format == "cloudevents-binary").then_some("2");
        assert_eq!(header(again, "ce_replay").as_deref(), attribute);
        let text = String::from_utf8(again.payload.clone().expect("a body")).expect("text");
        assert!(text.contains(body), "{format}: {text}");
    }
}
