//! The built-in sink for NATS JetStream.

use std::net::SocketAddr;

use async_nats::jetstream::stream::Config;
use outbox_sinks::conformance::{Destination, Draft, Repetitions, Stored};
use outbox_sinks::nats::Nats as Kind;
use outbox_sinks::{Connector, Event, SinkKind, async_trait};
use outbox_tests::servers::Nats;
use serde_json::json;
use tokio::sync::Mutex;

use crate::{lines, place};

const PASSWORD: &str = "open-sesame";
const WRONG_PASSWORD: &str = "wrong-sesame";

/// A stream each.
pub(crate) struct Streams {
    server: Mutex<Nats>,
    addr: SocketAddr,
}

impl Streams {
    pub(crate) async fn start() -> Self {
        let server = Nats::options().login("sinks", PASSWORD).start().await;
        Self {
            addr: server.addr(),
            server: Mutex::new(server),
        }
    }

    fn connector(&self, stream: &str, addr: SocketAddr, password: &str) -> Box<dyn Connector> {
        let settings = json!({
            "servers": [format!("nats://{addr}")],
            "subject": format!("{stream}.{{type}}"),
            "user": "sinks",
            "password": password,
            "ack_timeout": "2s",
        });
        let settings = serde_json::from_value(settings).expect("the settings are right");
        Kind::connector("test", settings).expect("the settings are right")
    }
}

#[async_trait]
impl Destination for Streams {
    type Place = String;

    async fn fresh(&self) -> String {
        let name = place::name("C");
        let config = Config {
            name: name.clone(),
            subjects: vec![format!("{name}.>")],
            ..Config::default()
        };
        let jetstream = self.server.lock().await.jetstream().await;
        jetstream
            .create_stream(config)
            .await
            .expect("a stream can be made");
        name
    }

    fn connector(&self, stream: &String, via: Option<SocketAddr>) -> Box<dyn Connector> {
        self.connector(stream, via.unwrap_or(self.addr), PASSWORD)
    }

    async fn stored(&self, stream: &String) -> Vec<Stored> {
        let jetstream = self.server.lock().await.jetstream().await;
        let stream = jetstream
            .get_stream(stream)
            .await
            .expect("the stream exists");
        let state = stream.get_info().await.expect("NATS answers").state;
        let mut stored = Vec::new();
        if state.messages > 0 {
            for sequence in state.first_sequence..=state.last_sequence {
                let message = stream.get_raw_message(sequence).await;
                stored.push(lines::stored(
                    &message.expect("nothing was deleted").payload,
                ));
            }
        }
        stored
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.addr)
    }

    async fn crash(&self) -> bool {
        let mut server = self.server.lock().await;
        server.kill().await;
        server.start_again().await;
        true
    }

    /// Two dots in a row make no subject.
    fn undeliverable(&self, draft: Draft) -> Option<Event> {
        Some(draft.with_type("node..checked").event())
    }

    fn denied(&self, stream: &String) -> Option<Box<dyn Connector>> {
        Some(self.connector(stream, self.addr, WRONG_PASSWORD))
    }

    fn absent(&self) -> Option<Box<dyn Connector>> {
        Some(self.connector("NONE", self.addr, PASSWORD))
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned(), WRONG_PASSWORD.to_owned()]
    }

    fn repetitions(&self) -> Repetitions {
        Repetitions::Dropped
    }
}
