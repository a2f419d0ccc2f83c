//! The sink `file`: each batch is one write, on a thread that may block.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::task::spawn_blocking;

use super::lines::Lines;
use super::target::{self, Target};
use crate::{Batch, Connector, Delivery, Session, Sink, SinkError};

#[derive(Debug)]
pub(super) struct FileConnector {
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    path: PathBuf,
    sync: bool,
    lines: Lines,
}

impl FileConnector {
    pub(super) fn new(path: PathBuf, sync: bool, lines: Lines) -> Self {
        let settings = Arc::new(Settings { path, sync, lines });
        Self { settings }
    }
}

#[async_trait]
impl Connector for FileConnector {
    /// Looks at the file and its directory, and creates neither.
    async fn probe(&self) -> Result<(), SinkError> {
        let settings = Arc::clone(&self.settings);
        spawn_blocking(move || target::probe(&settings.path)).await?
    }

    async fn open(&self, _session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        let settings = Arc::clone(&self.settings);
        let target = spawn_blocking(move || Target::open(&settings.path, settings.sync)).await??;
        Ok(Box::new(FileSink {
            settings: Arc::clone(&self.settings),
            target: Some(target),
        }))
    }
}

struct FileSink {
    settings: Arc<Settings>,
    /// `None` after a failure: the next delivery opens the file anew.
    target: Option<Target>,
}

#[async_trait]
impl Sink for FileSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let settings = Arc::clone(&self.settings);
        let (batch, target) = (batch.clone(), self.target.take());
        // A call that is dropped leaves this write running. It keeps its lock until it
        // has ended, so that no other delivery's lines come in between.
        let (target, delivery) = spawn_blocking(move || write(&settings, target, &batch)).await??;
        self.target = Some(target);
        Ok(delivery)
    }
}

fn write(
    settings: &Settings,
    target: Option<Target>,
    batch: &Batch,
) -> Result<(Target, Delivery), SinkError> {
    let mut target = match target.filter(|target| target.is_at(&settings.path)) {
        Some(target) => target,
        None => Target::open(&settings.path, settings.sync)?,
    };
    let encoded = settings.lines.encode(batch);
    target.append(&settings.path, &encoded.bytes)?;
    Ok((target, encoded.delivery))
}

#[cfg(test)]
mod tests;
