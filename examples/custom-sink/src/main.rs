//! A destination of one's own, with everything that the binary `sinks` has: run,
//! check, status, strict configuration, leases, backoff.
//!
//! It counts events by type and appends a line of counts to a file for each batch:
//!
//! ```toml
//! [sinks.tally.counter]
//! path = "counts.txt"
//! ```
//!
//! ```console
//! $ cargo run -p example-custom-sink -- --config counter.toml check
//! ```

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use outbox_runtime::{Registry, cli};
use outbox_sinks::{
    Batch, Connector, Delivery, Problems, Session, Sink, SinkError, SinkKind, async_trait,
};
use serde::Deserialize;

/// The table `[sinks.<name>.counter]`; a key that is not here is refused with its line.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counter {
    path: PathBuf,
}

impl SinkKind for Counter {
    const NAME: &'static str = "counter";
    type Settings = Self;

    fn connector(_name: &str, settings: Self) -> Result<Box<dyn Connector>, Problems> {
        if settings.path.file_name().is_none() {
            return Err(Problems::one("path", "name a file"));
        }
        Ok(Box::new(settings))
    }
}

#[async_trait]
impl Connector for Counter {
    async fn probe(&self) -> Result<(), SinkError> {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => Err(
                SinkError::misconfigured("find the file's folder", "create the folder"),
            ),
            _ => Ok(()),
        }
    }

    async fn open(&self, _session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Sink for Counter {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let mut counts = BTreeMap::<&str, usize>::new();
        for event in batch {
            *counts.entry(event.event_type()).or_default() += 1;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)?;
        writeln!(file, "{counts:?}")?;
        // Delivered means that it survives a crash.
        file.sync_all()?;
        Ok(Delivery::All)
    }
}

fn main() -> ExitCode {
    cli::main(Registry::empty().register::<Counter>())
}
