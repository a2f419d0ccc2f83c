//! The command line of `sinks` with a destination that misbehaves as its configuration says.
//!
//! What it takes is appended to one file, a line an event; each delivery is noted in another
//! before anything can go wrong with it. Like any honest sink it makes nothing durable before its
//! predecessor within a key: what follows a refused event of its key is unconfirmed.
//!
//! ```toml
//! [sinks.x.scripted]
//! path = "x.ndjson"
//! calls = "x.calls"
//! faults = [{ type = "poison.pill", does = "refuse", while = "broken" }]
//! ```

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use outbox_runtime::{Registry, cli};
use outbox_sinks::{
    Batch, Connector, Delivery, Event, Problems, Refusal, Session, Sink, SinkError, SinkKind,
    Verdict, async_trait,
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

/// The table `[sinks.<name>.scripted]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scripted {
    path: PathBuf,
    calls: PathBuf,
    #[serde(default)]
    faults: Vec<Fault>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    /// The events that meet it; all if absent.
    r#type: Option<String>,
    does: Does,
    /// It goes on only as long as this file exists.
    r#while: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Does {
    /// The delivery waits for the end of the fault.
    Hold,
    /// The process ends at once, as by a bug in a library.
    Abort,
    Panic,
    /// The whole delivery fails, and nobody can say why.
    Fail,
    /// The destination is out.
    Unavailable,
    /// The event alone is refused.
    Refuse,
    /// The event can never be sent.
    Undeliverable,
}

impl Fault {
    fn meets(&self, event: &Event) -> bool {
        let of_type = |wanted: &String| wanted == event.event_type();
        let goes_on = |file: &PathBuf| file.exists();
        self.r#type.as_ref().is_none_or(of_type) && self.r#while.as_ref().is_none_or(goes_on)
    }
}

impl SinkKind for Scripted {
    const NAME: &'static str = "scripted";
    type Settings = Self;

    fn connector(_name: &str, settings: Self) -> Result<Box<dyn Connector>, Problems> {
        Ok(Box::new(settings))
    }
}

#[async_trait]
impl Connector for Scripted {
    async fn probe(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn open(&self, _session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl Sink for Scripted {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        self.note(batch)?;
        while self.strikes(batch, Does::Hold) {
            sleep(Duration::from_millis(10)).await;
        }
        if self.strikes(batch, Does::Abort) {
            std::process::abort();
        }
        assert!(!self.strikes(batch, Does::Panic), "as the script says");
        if self.strikes(batch, Does::Unavailable) {
            return Err(SinkError::unavailable("as the script says"));
        }
        if self.strikes(batch, Does::Fail) {
            return Err(SinkError::failed("as the script says"));
        }
        let verdicts = self.verdicts(batch);
        self.take(batch, &verdicts)?;
        Ok(Delivery::from_verdicts(verdicts))
    }
}

impl Scripted {
    fn does(&self, event: &Event, what: Does) -> bool {
        let mut faults = self.faults.iter().filter(|fault| fault.does == what);
        faults.any(|fault| fault.meets(event))
    }

    fn strikes(&self, batch: &Batch, what: Does) -> bool {
        batch.iter().any(|event| self.does(event, what))
    }

    fn verdicts(&self, batch: &Batch) -> Vec<Verdict> {
        let mut open = HashSet::new();
        let refusal = || Refusal::new("SCRIPTED", "as the script says");
        let mut verdict = |event: &Event| {
            if self.does(event, Does::Undeliverable) {
                Verdict::Undeliverable(refusal())
            } else if open.contains(event.subject()) {
                Verdict::Unconfirmed
            } else if self.does(event, Does::Refuse) {
                open.insert(event.subject().to_owned());
                Verdict::Refused(refusal())
            } else {
                Verdict::Delivered
            }
        };
        batch.iter().map(&mut verdict).collect()
    }

    /// Notes that a delivery begins.
    fn note(&self, batch: &Batch) -> Result<(), SinkError> {
        let call = json!({
            "first": batch.first().position().to_string(),
            "last": batch.last().position().to_string(),
            "events": batch.len(),
            "apart": batch.is_apart(),
        });
        append(&self.calls, &format!("{call}\n"))
    }

    fn take(&self, batch: &Batch, verdicts: &[Verdict]) -> Result<(), SinkError> {
        let mut lines = String::new();
        let verdicts = batch.iter().zip(verdicts);
        for (event, _) in verdicts.filter(|(_, verdict)| **verdict == Verdict::Delivered) {
            let taken = json!({
                "id": event.id(),
                "sequence": event.position().to_string(),
                "subject": event.subject(),
                "replay": event.replay(),
            });
            lines.push_str(&format!("{taken}\n"));
        }
        append(&self.path, &lines)
    }
}

/// One write, so that what several processes append is not mixed. No test stages a crash of the
/// operating system: what was written is durable.
fn append(path: &Path, text: &str) -> Result<(), SinkError> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(())
}

fn main() -> ExitCode {
    cli::main(Registry::builtin().register::<Scripted>())
}
