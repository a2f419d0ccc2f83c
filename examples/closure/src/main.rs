//! A sink of one's own: `[sinks.<name>.journal]` appends events to a file, a line each.
use std::{path::PathBuf, process::ExitCode};

use outbox_runtime::{Registry, cli};
use outbox_sinks::{Batch, Delivery, Encoder, SinkError, schemars};
use tokio::{fs::File, io::AsyncWriteExt};

#[derive(Clone, serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Journal {
    /// The file that is appended to.
    path: PathBuf,
}

pub(crate) async fn deliver(to: Journal, batch: Batch) -> Result<Delivery, SinkError> {
    let lines = Encoder::default().lines(&batch);
    let mut file = File::options();
    let mut file = file.create(true).append(true).open(to.path).await?;
    file.write_all(b"\n").await?; // Ends what a crash may have cut short.
    file.write_all(&lines.bytes).await?;
    file.flush().await?; // Here tokio tells whether it could be written.
    file.sync_all().await?; // Delivered means that it survives a crash.
    Ok(lines.delivery)
}

fn main() -> ExitCode {
    cli::main(Registry::empty().function("journal", deliver))
}
