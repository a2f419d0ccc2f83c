//! The sink `stdout`: lines to standard output.
//!
//! Delivered means handed to whoever reads it. Nothing is known about what the reader
//! does, so this is for looking and for pipes, not for keeping. One write at a time goes
//! to standard output, whichever sink it is from: a reader that stalls holds up one
//! thread, and the lines stay whole when it reads on.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::LazyLock;

use async_trait::async_trait;
use tokio::task::spawn_blocking;

use super::classify;
use super::turn::Turn;
use crate::{Batch, Connector, Delivery, Encoder, Session, Sink, SinkError};

/// The turn to write to this process's standard output. It says whether a failed write
/// may have left half a line.
static TORN: LazyLock<Turn<bool>> = LazyLock::new(Turn::default);

#[derive(Debug)]
pub(super) struct StdoutConnector {
    encoder: Encoder,
}

impl StdoutConnector {
    pub(super) fn new(encoder: Encoder) -> Self {
        Self { encoder }
    }
}

#[async_trait]
impl Connector for StdoutConnector {
    async fn probe(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn open(&self, _session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(LineSink {
            encoder: self.encoder.clone(),
            torn: TORN.clone(),
            output: standard_output,
        }))
    }
}

/// Standard output without the library's buffer, which would keep what failed and
/// write it later.
fn standard_output() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

struct LineSink<F> {
    encoder: Encoder,
    torn: Turn<bool>,
    output: F,
}

#[async_trait]
impl<F> Sink for LineSink<F>
where
    F: Fn() -> io::Result<File> + Send + Sync,
{
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let mut torn = self.torn.take().await.ok_or_else(classify::stalled)?;
        let mut output = (self.output)().map_err(classify::stdout)?;
        let encoded = self.encoder.lines(batch);
        let mut bytes = encoded.bytes;
        // This call may be dropped while the thread still writes: it keeps the turn.
        let write = move || {
            if *torn {
                bytes.insert(0, b'\n');
            }
            *torn = true;
            output.write_all(&bytes)?;
            *torn = false;
            Ok(())
        };
        spawn_blocking(write).await?.map_err(classify::stdout)?;
        Ok(encoded.delivery)
    }
}

#[cfg(test)]
mod tests;
