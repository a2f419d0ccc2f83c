//! When each event was committed and when it arrived, by its number.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

/// The number of the first event of a run: it shows that whoever delivers is awake, and
/// nobody waits for it in a figure.
pub(super) const PROBE: u32 = 0;

/// Two moments for each event, in nanoseconds since the journal was opened; zero is "not yet".
#[derive(Debug)]
pub(super) struct Journal {
    opened: Instant,
    committed: Vec<AtomicU64>,
    arrived: Vec<AtomicU64>,
}

impl Journal {
    /// For events with numbers below `events`.
    #[must_use]
    pub(super) fn of(events: u32) -> Self {
        let moments = || (0..events).map(|_| AtomicU64::new(0)).collect();
        Self {
            opened: Instant::now(),
            committed: moments(),
            arrived: moments(),
        }
    }

    /// Nanoseconds since it was opened.
    #[must_use]
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).map_or(u64::MAX, |now| now.max(1))
    }

    /// Postgres has acknowledged the commit of these.
    pub(super) fn commit(&self, numbers: Range<u32>) {
        let now = self.now();
        for moment in numbers.filter_map(|number| at(&self.committed, number)) {
            moment.store(now, Relaxed);
        }
    }

    /// The event is at its destination. False if it was before, or is none of ours.
    pub(super) fn arrive(&self, number: u32) -> bool {
        let now = self.now();
        at(&self.arrived, number)
            .is_some_and(|moment| moment.compare_exchange(0, now, Relaxed, Relaxed).is_ok())
    }

    /// When it was committed.
    #[must_use]
    pub(super) fn committed_at(&self, number: u32) -> u64 {
        at(&self.committed, number).map_or(0, |moment| moment.load(Relaxed))
    }

    /// When it arrived; zero if it has not.
    #[must_use]
    pub(super) fn arrived_at(&self, number: u32) -> u64 {
        at(&self.arrived, number).map_or(0, |moment| moment.load(Relaxed))
    }

    /// How many of these have not arrived.
    #[must_use]
    pub(super) fn missing(&self, numbers: Range<u32>) -> usize {
        numbers
            .filter(|&number| self.arrived_at(number) == 0)
            .count()
    }

    /// Waits until all of these have arrived.
    ///
    /// # Errors
    /// If some have not in time: they are lost, or somebody is very slow.
    pub(super) async fn until_arrived(
        &self,
        numbers: Range<u32>,
        patience: Duration,
    ) -> Result<()> {
        let deadline = Instant::now() + patience;
        // Looked at from the end: the last ones come last.
        while numbers
            .clone()
            .rev()
            .any(|number| self.arrived_at(number) == 0)
        {
            let missing = || self.missing(numbers.clone());
            let count = numbers.len();
            ensure!(
                Instant::now() < deadline,
                "{} of {count} events have not arrived after {patience:?}",
                missing()
            );
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// From commit to arrival in milliseconds, in order of size. An event can arrive a moment
    /// before its publisher hears of the commit: that counts as zero.
    #[must_use]
    pub(super) fn latencies(&self, numbers: Range<u32>) -> Vec<f64> {
        let latency = |number| {
            let (from, to) = (self.committed_at(number), self.arrived_at(number));
            to.saturating_sub(from) as f64 / 1e6
        };
        let mut latencies: Vec<_> = numbers.map(latency).collect();
        latencies.sort_by(f64::total_cmp);
        latencies
    }
}

fn at(moments: &[AtomicU64], number: u32) -> Option<&AtomicU64> {
    moments.get(usize::try_from(number).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_event_that_has_not_arrived_is_missed() {
        let journal = Journal::of(3);
        journal.commit(0..3);
        assert!(journal.arrive(0) && journal.arrive(2));
        assert!(!journal.arrive(2), "it was there before");
        assert!(!journal.arrive(3), "it is none of ours");
        assert_eq!(journal.missing(0..3), 1);
        let moment = Duration::from_millis(5);
        assert!(journal.until_arrived(0..3, moment).await.is_err());
        journal.arrive(1);
        assert!(journal.until_arrived(0..3, moment).await.is_ok());
        assert_eq!(journal.latencies(0..3).len(), 3);
    }
}
