//! The newest events, as one read has brought them for all loops.
//!
//! Guards OB-5 and OB-1 for who reads here: a page says of a range that these are all the
//! events in it, now and for ever, for it lies below the horizon. A loop takes a page only
//! if it stands within the page's range; before a gap it finds none, and reads for itself.

use std::collections::VecDeque;
use std::sync::Arc;

use outbox::{Event, Filter, Position};
use outbox_sinks::BatchLimits;

use crate::store::{Head, Page, PageEnd};

/// How much is kept, in bytes of memory, beside the newest page. With what a loop holds
/// of older pages, which is at most twice the bytes of its batches, this bounds what
/// sharing costs: at 300 bytes an event, a second of 10,000 events a second.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// How many pages are kept: as many as a second has, with a look in each millisecond.
const MAX_KEPT_PAGES: usize = 1_024;

/// All events of a range, whatever a loop takes of them.
#[derive(Debug)]
pub(super) struct SharedPage {
    /// The range begins after this position.
    from: Position,
    /// It ends here.
    end: Position,
    events: Vec<Event>,
    payload_bytes: usize,
    /// Whether nothing more was there.
    at_horizon: bool,
}

impl SharedPage {
    /// What `filter` takes of the events after `after`, within limits. `newest` says that
    /// there is no page after this one.
    pub(super) fn take(
        &self,
        after: Position,
        filter: &Filter,
        room: BatchLimits,
        newest: bool,
    ) -> Page {
        let everything = match newest && self.at_horizon {
            true => PageEnd::Horizon,
            false => PageEnd::Rows,
        };
        let mut taken = Page {
            events: Vec::new(),
            end: after,
            ended_by: everything,
        };
        let first = self.events.partition_point(|it| it.position() <= after);
        let mut bytes = 0;
        for event in self.events.iter().skip(first) {
            if filter.takes(event) {
                let size = event.payload().len();
                if taken.events.len() >= room.max_events {
                    taken.ended_by = PageEnd::Rows;
                    return self.unpinned(taken, bytes);
                }
                if bytes + size > room.max_bytes && !taken.events.is_empty() {
                    taken.ended_by = PageEnd::Bytes;
                    return self.unpinned(taken, bytes);
                }
                bytes += size;
                taken.events.push(event.clone());
            }
            taken.end = event.position();
        }
        taken.end = self.end;
        self.unpinned(taken, bytes)
    }

    /// Copies the events out of the page if more than half of it would be kept for nothing.
    fn unpinned(&self, mut taken: Page, bytes: usize) -> Page {
        if bytes < self.payload_bytes / 2 {
            for event in &mut taken.events {
                *event = event.detached();
            }
        }
        taken
    }

    fn weight(&self) -> usize {
        let topics: usize = self.events.iter().map(|it| it.topic().len()).sum();
        self.payload_bytes + topics + self.events.len() * size_of::<Event>()
    }
}

/// The pages that are kept, oldest first, of one history.
#[derive(Debug, Default)]
pub(super) struct Pages {
    history: u64,
    edge: Position,
    kept: VecDeque<Arc<SharedPage>>,
    bytes: usize,
}

impl Pages {
    /// What lies at or before it was shared, or is left to the loops; what lies after it
    /// will be read for all who stand there. Moves back only with the history.
    pub(super) const fn edge(&self) -> Position {
        self.edge
    }

    /// Who stands at or after this position may find all that it needs here.
    pub(super) fn begin(&self) -> Position {
        self.kept.front().map_or(self.edge, |page| page.from)
    }

    /// The page that has what comes after `after`, and whether it is the newest.
    pub(super) fn after(&self, after: Position, history: u64) -> Option<(Arc<SharedPage>, bool)> {
        let place = self.kept.partition_point(|page| page.end <= after);
        let page = self.kept.get(place)?;
        let fits = self.history == history && page.from <= after;
        fits.then(|| (Arc::clone(page), place + 1 == self.kept.len()))
    }

    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes note of a head. `page` was read along with it, after the edge.
    pub(super) fn take_note(&mut self, head: Head, page: Option<Page>) {
        if self.history != head.history {
            // Positions of another history mean nothing in this one.
            *self = Self {
                history: head.history,
                ..Self::default()
            };
            self.edge = head.newest.unwrap_or_default();
        } else if let Some(page) = page {
            self.keep(head, page);
        } else {
            self.edge = self.edge.max(head.newest.unwrap_or_default());
        }
    }

    fn keep(&mut self, head: Head, page: Page) {
        let at_horizon = page.ended_by == PageEnd::Horizon;
        let end = match head.newest {
            Some(newest) if at_horizon => newest,
            None if at_horizon => self.edge,
            _ => page.end,
        };
        if end <= self.edge {
            return;
        }
        let page = SharedPage {
            from: self.edge,
            end,
            payload_bytes: page.events.iter().map(|it| it.payload().len()).sum(),
            events: page.events,
            at_horizon,
        };
        self.edge = end;
        self.bytes += page.weight();
        self.kept.push_back(Arc::new(page));
        while self.kept.len() > 1
            && (self.bytes > MAX_KEPT_BYTES || self.kept.len() > MAX_KEPT_PAGES)
        {
            let oldest = self.kept.pop_front();
            self.bytes -= oldest.map_or(0, |page| page.weight());
        }
    }
}
