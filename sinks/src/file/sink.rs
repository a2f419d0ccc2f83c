//! The sink `file`: each batch is one write, on a thread that may block.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OwnedMutexGuard;
use tokio::task::spawn_blocking;

use super::classify;
use super::target::{self, Target};
use super::turn::Turn;
use crate::{Batch, Connector, Delivery, Encoder, Session, Sink, SinkError};

#[derive(Debug)]
pub(super) struct FileConnector {
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    path: PathBuf,
    sync: bool,
    encoder: Encoder,
    turn: Turn<()>,
}

impl FileConnector {
    pub(super) fn new(path: PathBuf, sync: bool, encoder: Encoder) -> Self {
        let turn = Turn::default();
        Self {
            settings: Arc::new(Settings {
                path,
                sync,
                encoder,
                turn,
            }),
        }
    }
}

impl Settings {
    /// The turn to block on this file, whichever session asks.
    async fn turn(&self) -> Result<OwnedMutexGuard<()>, SinkError> {
        let turn = self.turn.take().await;
        turn.ok_or_else(|| classify::hangs(&self.path))
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
        let turn = settings.turn().await?;
        let open = move || {
            let _until_opened = turn;
            Target::open(&settings.path, settings.sync)
        };
        let target = spawn_blocking(open).await??;
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
        let turn = settings.turn().await?;
        let (batch, target) = (batch.clone(), self.target.take());
        // A call that is dropped leaves this write running. It keeps its lock and its
        // turn until it has ended, so that no other delivery's lines come in between.
        let append = move || {
            let _until_written = turn;
            write(&settings, target, &batch)
        };
        let (target, delivery) = spawn_blocking(append).await??;
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
    let encoded = settings.encoder.lines(batch);
    target.append(&settings.path, &encoded.bytes)?;
    Ok((target, encoded.delivery))
}

#[cfg(test)]
mod tests;
