//! What one run came to.

use std::time::Duration;

/// One run of one contender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// How many events.
    pub(super) events: u32,
    /// How long it took.
    pub(super) elapsed: Duration,
    /// What the process has cost.
    pub(super) cpu: Duration,
    /// What its sessions have cost Postgres.
    pub(super) backends: Duration,
    /// The most memory that it had, in bytes.
    pub(super) peak_rss: u64,
    /// Events that arrived more than once.
    pub(super) duplicates: u64,
}

impl Figures {
    /// Events a second.
    pub(super) fn rate(&self) -> f64 {
        f64::from(self.events) / self.elapsed.as_secs_f64()
    }

    /// The process' CPU seconds a million events.
    pub(super) fn cpu_a_million(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / f64::from(self.events)
    }

    /// The sessions' CPU seconds a million events.
    pub(super) fn backends_a_million(&self) -> f64 {
        self.backends.as_secs_f64() * 1e6 / f64::from(self.events)
    }
}
