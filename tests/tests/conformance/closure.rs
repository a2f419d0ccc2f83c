//! The example of a function as a sink: the very file that it consists of.

use std::net::SocketAddr;

use outbox_sinks::conformance::{Destination, Stored};
use outbox_sinks::{Connector, async_trait, from_fn};
use serde_json::json;
use tempfile::TempDir;

use crate::lines;

#[expect(dead_code, reason = "its `main` is the program's")]
#[path = "../../../examples/closure/src/main.rs"]
mod example;

/// A file each, in a folder of its own.
pub(crate) struct Journals;

#[async_trait]
impl Destination for Journals {
    type Place = TempDir;

    async fn fresh(&self) -> TempDir {
        tempfile::tempdir().expect("a folder can be made")
    }

    fn connector(&self, place: &TempDir, _via: Option<SocketAddr>) -> Box<dyn Connector> {
        let path = place.path().join("journal.ndjson");
        let settings = serde_json::from_value(json!({ "path": path }));
        let settings: example::Journal = settings.expect("the settings are right");
        Box::new(from_fn(move |batch| {
            example::deliver(settings.clone(), batch)
        }))
    }

    async fn stored(&self, place: &TempDir) -> Vec<Stored> {
        let text = std::fs::read(place.path().join("journal.ndjson"));
        lines::all(&text.unwrap_or_default())
    }
}
