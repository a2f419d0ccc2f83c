//! SIGTERM and SIGINT: the first asks for a graceful stop, the second ends the
//! process at once.
//!
//! The handlers are installed explicitly, because a process with pid 1 (as in a
//! container) ignores every signal that it has no handler for.

use std::convert::Infallible;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The two signals, from now on under our control.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Installs the handlers.
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Runs `work`; a signal cancels `stop`, which the work watches.
    pub(super) async fn guard<T>(
        self,
        stop: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::select! {
            result = work => result,
            never = self.watch(stop) => match never {},
        }
    }

    async fn watch(mut self, stop: &CancellationToken) -> Infallible {
        let (name, _) = self.next().await;
        info!(signal = name, "stopping: finishing what is in hand");
        stop.cancel();
        let (name, number) = self.next().await;
        warn!(signal = name, "stopping at once");
        // As a shell reports a process that a signal ended.
        std::process::exit(128 + number);
    }

    async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.terminate.recv() => ("SIGTERM", SignalKind::terminate().as_raw_value()),
            _ = self.interrupt.recv() => ("SIGINT", SignalKind::interrupt().as_raw_value()),
        }
    }
}
