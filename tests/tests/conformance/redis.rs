//! The example for Redis streams.

use std::net::SocketAddr;

use example_redis_streams::RedisStreams;
use outbox_sinks::conformance::{Destination, Draft, Stored};
use outbox_sinks::{Connector, Event, SinkKind, async_trait};
use outbox_tests::servers::Redis;
use serde_json::json;
use tokio::sync::Mutex;

use crate::place;

const PASSWORD: &str = "open-sesame";
const WRONG_PASSWORD: &str = "wrong-sesame";

/// A stream for each area of a place.
pub(crate) struct Streams {
    server: Mutex<Redis>,
    addr: SocketAddr,
}

impl Streams {
    pub(crate) async fn start() -> Self {
        let server = Redis::options().password(PASSWORD).start().await;
        Self {
            addr: server.addr(),
            server: Mutex::new(server),
        }
    }

    fn connector(&self, place: &str, addr: SocketAddr, password: &str) -> Box<dyn Connector> {
        let settings = json!({
            "url": format!("redis://{addr}"),
            "password": password,
            "stream": format!("{place}.{{area}}"),
        });
        let settings = serde_json::from_value(settings).expect("the settings are right");
        RedisStreams::connector("test", settings).expect("the settings are right")
    }
}

#[async_trait]
impl Destination for Streams {
    type Place = String;

    async fn fresh(&self) -> String {
        let place = place::name("c");
        let server = self.server.lock().await;
        // No stream can be where something else is.
        let _: () = server.run(&format!("SET {place}.taken by-a-text")).await;
        place
    }

    fn connector(&self, place: &String, via: Option<SocketAddr>) -> Box<dyn Connector> {
        self.connector(place, via.unwrap_or(self.addr), PASSWORD)
    }

    async fn stored(&self, place: &String) -> Vec<Stored> {
        let server = self.server.lock().await;
        let keys: Vec<String> = server.run(&format!("KEYS {place}.*")).await;
        let mut stored = Vec::new();
        for key in keys.iter().filter(|key| !key.ends_with(".taken")) {
            let entries = server.entries(key).await;
            stored.extend(
                entries
                    .iter()
                    .map(|it| Stored::new(it.field("id"), it.field("data"))),
            );
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

    fn refused(&self, draft: Draft) -> Option<Event> {
        Some(draft.with_type("taken.checked").event())
    }

    fn denied(&self, place: &String) -> Option<Box<dyn Connector>> {
        Some(self.connector(place, self.addr, WRONG_PASSWORD))
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned(), WRONG_PASSWORD.to_owned()]
    }
}
