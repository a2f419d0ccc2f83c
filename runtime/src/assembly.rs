//! A batch that is being put together: when it is full, and when it has waited enough.

use std::time::Duration;

use outbox::{Event, Position};
use outbox_sinks::{Batch, BatchLimits};
use tokio::time::Instant;

use crate::feed::{ClosedBy, Fed};
use crate::store::{Page, PageEnd};

/// For how long passing events over is not worth a word: where a filter takes little, a
/// look at the head in each millisecond would wake the loop as often, for nothing.
const PASSING: Duration = Duration::from_millis(50);

/// A batch that is being put together.
pub(crate) struct Assembly {
    limits: BatchLimits,
    events: Vec<Event>,
    bytes: usize,
    first_at: Option<Instant>,
    /// When events began to be passed over.
    passing_since: Option<Instant>,
}

impl Assembly {
    pub(crate) const fn new(limits: BatchLimits) -> Self {
        Self {
            limits,
            events: Vec::new(),
            bytes: 0,
            first_at: None,
            passing_since: None,
        }
    }

    /// When it must be handed out, if there is anything to it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let first = self.first_at.map(|at| at + self.limits.max_wait);
        first.or_else(|| self.passing_since.map(|at| at + PASSING))
    }

    /// Whether it has waited long enough. At a `max_wait` of zero it waits for no event,
    /// but takes along what is there.
    pub(crate) fn is_due(&self, nothing_there: bool) -> bool {
        let due = self.deadline().is_some_and(|at| Instant::now() >= at);
        due && (nothing_there || self.first_at.is_none() || !self.limits.max_wait.is_zero())
    }

    /// What still fits in: at least one event.
    pub(crate) fn room(&self) -> BatchLimits {
        let left = |limit: usize, used: usize| limit.saturating_sub(used).max(1);
        let events = left(self.limits.max_events, self.events.len());
        let bytes = left(self.limits.max_bytes, self.bytes);
        self.limits.max_events(events).max_bytes(bytes)
    }

    /// Takes a page in, and tells why the batch is full, if it is.
    pub(crate) fn add(&mut self, page: Page) -> Option<ClosedBy> {
        let full = page.ended_by == PageEnd::Bytes && !page.events.is_empty();
        self.bytes += page
            .events
            .iter()
            .map(|event| event.payload().len())
            .sum::<usize>();
        let since = match page.events.is_empty() {
            true => &mut self.passing_since,
            false => &mut self.first_at,
        };
        since.get_or_insert_with(Instant::now);
        if self.events.is_empty() {
            self.events = page.events;
        } else {
            self.events.extend(page.events);
        }
        if self.events.len() >= self.limits.max_events {
            Some(ClosedBy::Events)
        } else if full || self.bytes >= self.limits.max_bytes {
            Some(ClosedBy::Bytes)
        } else {
            None
        }
    }

    pub(crate) fn close(self, end: Position, closed_by: ClosedBy) -> Fed {
        match Batch::new(self.events) {
            Some(batch) => Fed::Batch {
                batch,
                end,
                closed_by,
            },
            None => Fed::Passed { end },
        }
    }
}
