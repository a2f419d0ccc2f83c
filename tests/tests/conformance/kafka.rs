//! The built-in sink for Kafka: a broker whose second listener is behind a proxy and wants a
//! password.

use std::net::SocketAddr;

use outbox_sinks::conformance::{Destination, Draft, Proxy, Stored};
use outbox_sinks::kafka::Kind;
use outbox_sinks::{Connector, Event, SinkKind, async_trait};
use outbox_tests::servers::Kafka;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{lines, place};

const PASSWORD: &str = "open-sesame";
const WRONG_PASSWORD: &str = "wrong-sesame";
const JAAS: &str =
    "org.apache.kafka.common.security.plain.PlainLoginModule required user_sinks=\"open-sesame\";";

/// A topic each.
pub(crate) struct Topics {
    kafka: Mutex<Kafka>,
    bootstrap: String,
    proxy: Proxy,
}

impl Topics {
    pub(crate) async fn start() -> Self {
        let map = "DIRECT:PLAINTEXT,PROXIED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT";
        let options = Kafka::options()
            .set("listener.security.protocol.map", map)
            .set("listener.name.proxied.sasl.enabled.mechanisms", "PLAIN")
            .set("listener.name.proxied.plain.sasl.jaas.config", JAAS);
        let (kafka, proxy) = options.start_behind_proxy().await;
        Self {
            bootstrap: kafka.bootstrap(),
            kafka: Mutex::new(kafka),
            proxy,
        }
    }

    fn proxied(&self, topic: &str, password: &str) -> Box<dyn Connector> {
        connector(json!({
            "brokers": [self.proxy.addr()],
            "topic": topic,
            "compression": "none",
            "sasl": { "mechanism": "PLAIN", "username": "sinks", "password": password },
        }))
    }

    fn direct(&self, topic: &str) -> Box<dyn Connector> {
        let brokers: Vec<_> = self.bootstrap.split(',').collect();
        connector(json!({ "brokers": brokers, "topic": topic, "compression": "none" }))
    }
}

fn connector(settings: Value) -> Box<dyn Connector> {
    let settings = serde_json::from_value(settings).expect("the settings are right");
    Kind::connector("test", settings).expect("the settings are right")
}

#[async_trait]
impl Destination for Topics {
    type Place = String;

    async fn fresh(&self) -> String {
        let topic = place::name("conformance-");
        // Above all that a thousand of the kit's events can fill one request with.
        let limit = [("max.message.bytes", "600000")];
        let kafka = self.kafka.lock().await;
        kafka.create_topic_with(&topic, 3, &limit).await;
        topic
    }

    fn connector(&self, topic: &String, via: Option<SocketAddr>) -> Box<dyn Connector> {
        match via {
            Some(_) => self.proxied(topic, PASSWORD),
            None => self.direct(topic),
        }
    }

    async fn stored(&self, topic: &String) -> Vec<Stored> {
        let messages = self.kafka.lock().await.messages(topic).await;
        let bodies = messages
            .iter()
            .filter_map(|message| message.payload.as_deref());
        bodies.map(lines::stored).collect()
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }

    async fn crash(&self) -> bool {
        let mut kafka = self.kafka.lock().await;
        kafka.kill().await;
        kafka.start_again().await;
        true
    }

    /// Over the sink's own limit of a million bytes.
    fn undeliverable(&self, draft: Draft) -> Option<Event> {
        Some(
            draft
                .with_data(format!("\"{}\"", "x".repeat(1_200_000)))
                .event(),
        )
    }

    /// Over the topic's limit, which the sink does not know.
    fn refused(&self, draft: Draft) -> Option<Event> {
        Some(
            draft
                .with_data(format!("\"{}\"", "x".repeat(800_000)))
                .event(),
        )
    }

    fn denied(&self, topic: &String) -> Option<Box<dyn Connector>> {
        Some(self.proxied(topic, WRONG_PASSWORD))
    }

    fn absent(&self) -> Option<Box<dyn Connector>> {
        Some(self.direct("no-such-topic"))
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned(), WRONG_PASSWORD.to_owned()]
    }
}
