//! The built-in sink for files.

use std::net::SocketAddr;

use outbox_sinks::conformance::{Destination, Stored};
use outbox_sinks::file::File;
use outbox_sinks::{Connector, SinkKind, async_trait};
use serde_json::json;
use tempfile::TempDir;

use crate::lines;

/// A file each, in a folder of its own.
pub(crate) struct Files;

fn connector(path: &std::path::Path) -> Box<dyn Connector> {
    let settings = serde_json::from_value(json!({ "path": path })).expect("the settings are right");
    File::connector("test", settings).expect("the settings are right")
}

#[async_trait]
impl Destination for Files {
    type Place = TempDir;

    async fn fresh(&self) -> TempDir {
        tempfile::tempdir().expect("a folder can be made")
    }

    fn connector(&self, place: &TempDir, _via: Option<SocketAddr>) -> Box<dyn Connector> {
        connector(&place.path().join("events.ndjson"))
    }

    async fn stored(&self, place: &TempDir) -> Vec<Stored> {
        let text = std::fs::read(place.path().join("events.ndjson"));
        lines::all(&text.unwrap_or_default())
    }

    fn absent(&self) -> Option<Box<dyn Connector>> {
        let folder = tempfile::tempdir().expect("a folder can be made");
        // The folder goes when this returns.
        Some(connector(&folder.path().join("none/events.ndjson")))
    }
}
