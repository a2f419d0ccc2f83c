//! A loop's place in the outbox, as the head knows it: who is near shares what is read.

use std::sync::Arc;

use outbox::{Filter, Position};
use outbox_sinks::BatchLimits;

use super::{HeadReceiver, SharedPage};
use crate::store::{Head, Page};

/// One loop on its way through one history of the outbox.
#[derive(Debug)]
pub(crate) struct Follower {
    head: HeadReceiver,
    id: u64,
    at: Position,
    history: u64,
}

impl Follower {
    /// Begins after a position, and lets the head know.
    pub(crate) fn start(head: HeadReceiver, at: Position, history: u64) -> Self {
        let id = {
            let mut known = head.known();
            let id = known.next_place;
            known.next_place += 1;
            known.places.insert(id, (at, history));
            id
        };
        Self {
            head,
            id,
            at,
            history,
        }
    }

    /// Everything up to here was looked at.
    pub(crate) const fn at(&self) -> Position {
        self.at
    }

    pub(crate) const fn history(&self) -> u64 {
        self.history
    }

    pub(crate) fn go_to(&mut self, at: Position) {
        self.at = at;
        self.head.known().places.insert(self.id, (at, self.history));
    }

    /// Waits until there is something to read, and returns the head; or a head of a later
    /// history. Pends for ever once the polling has ended.
    pub(crate) async fn more(&self) -> Head {
        let shared = &self.head.0;
        loop {
            // Made before the look: what changes after it is not missed.
            let moved = shared.moved.notified();
            let beyond = self.head.known().beyond(self.at, self.history);
            if let Some(head) = beyond {
                return head;
            }
            shared.caught_up.notify_one();
            moved.await;
        }
    }

    /// What comes next, if it is on a shared page: all that `filter` takes and that there
    /// is room for.
    pub(crate) fn shared(&self, filter: &Filter, room: BatchLimits) -> Option<Page> {
        let (page, newest): (Arc<SharedPage>, bool) = {
            let known = self.head.known();
            known.pages.after(self.at, self.history)?
        };
        Some(page.take(self.at, filter, room, newest))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.head.known().places.remove(&self.id);
    }
}
