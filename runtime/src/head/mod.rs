//! One look at the head for all loops of the process, which brings the newest events
//! along.
//!
//! A single task ([`watch_head`]) looks at the horizon and at what has come below it, and
//! tells every loop, so that idling costs the same with one sink and with thirty; and so
//! does reading, for the loops that have caught up: they share the pages that the look
//! has read. A loop that is behind reads for itself.

mod follower;
mod pages;
mod watch;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outbox::Position;
use tokio::sync::Notify;

pub(crate) use self::follower::Follower;
use self::pages::{Pages, SharedPage};
pub use self::watch::watch_head;
use crate::store::{Head, Page};

/// What the loops hold: the head as it was last seen, and word of its changes.
///
/// Those who wait are woken in the order in which they began to wait. (tokio's `watch`
/// draws lots, and then no run of the simulation could be repeated.)
#[derive(Clone, Debug, Default)]
pub struct HeadReceiver(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Known>,
    /// There is more to read.
    moved: Notify,
    /// An operator has ordered something, or the head was seen for the first time. Apart
    /// from `moved`: every loop waits for it all the time.
    ordered: Notify,
    /// A loop waits at the head.
    caught_up: Notify,
}

/// What is known of the outbox's end, and of who reads there.
#[derive(Debug, Default)]
struct Known {
    head: Option<Head>,
    pages: Pages,
    /// Where each loop reads, and in which history.
    places: BTreeMap<u64, (Position, u64)>,
    next_place: u64,
}

impl Known {
    /// The head, if there is something after `position` that may be read.
    fn beyond(&self, position: Position, history: u64) -> Option<Head> {
        self.head.filter(|head| match head.history.cmp(&history) {
            Ordering::Less => false,
            // What lies after the edge is about to be read for all.
            Ordering::Equal => self.pages.edge() > position,
            Ordering::Greater => true,
        })
    }

    /// Where the next shared page begins; `None` if no loop is near enough to want it.
    fn reads_on(&self) -> Option<Position> {
        let history = self.head?.history;
        let begin = self.pages.begin();
        let near = |(at, of): &(Position, u64)| *of == history && *at >= begin;
        let followed = self.places.values().any(near);
        followed.then(|| self.pages.edge())
    }

    /// Takes note of a head, and of the page that was read along with it. Returns whether
    /// there is more to read, and whether there is something to obey.
    fn take_note(&mut self, mut head: Head, page: Option<Page>) -> (bool, bool) {
        let before = self.head;
        if let Some(before) = before.filter(|before| before.history == head.history) {
            // Rows that were deleted since do not move it back.
            head.newest = head.newest.max(before.newest);
        }
        let edge = (head.history, self.pages.edge());
        self.pages.take_note(head, page);
        self.head = Some(head);
        let moved = edge != (head.history, self.pages.edge())
            || before.is_none_or(|before| before.history != head.history);
        let ordered = before.is_none_or(|before| before.operation != head.operation);
        (moved, ordered)
    }
}

impl HeadReceiver {
    /// The head as it was last seen.
    #[must_use]
    pub fn last(&self) -> Option<Head> {
        self.known().head
    }

    /// Waits until an operator has ordered what `news` waits for. Pends for ever once the
    /// polling has ended.
    async fn wait_for_order(&self, news: impl Fn(Head) -> bool) {
        loop {
            // Made before the look: what changes after it is not missed.
            let ordered = self.0.ordered.notified();
            if self.last().is_some_and(&news) {
                return;
            }
            ordered.await;
        }
    }

    /// Tells those who wait what was seen, if it is news to them. Returns whether it is.
    fn tell(&self, head: Head, page: Option<Page>) -> bool {
        let (moved, ordered) = self.known().take_note(head, page);
        if moved {
            self.0.moved.notify_waiters();
        }
        if ordered {
            self.0.ordered.notify_waiters();
        }
        moved || ordered
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the head was seen once.
pub(crate) async fn first_head(head: &HeadReceiver) {
    head.wait_for_order(|_| true).await;
}

/// The last operator's command, once the head was seen.
pub(crate) fn last_operation(head: &HeadReceiver) -> Option<i64> {
    head.last().map(|head| head.operation)
}

/// Waits for an operator's command after the one that is known; for ever if none is
/// known yet, or the polling has ended.
pub(crate) async fn next_operation(head: &HeadReceiver, known: Option<i64>) {
    let news = |head: Head| known.is_some_and(|known| head.operation != known);
    head.wait_for_order(news).await;
}

#[cfg(test)]
mod tests;
