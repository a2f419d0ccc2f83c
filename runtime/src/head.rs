//! One look at the head for all loops of the process.
//!
//! A single task polls the horizon and the newest position and tells every loop,
//! so that idling costs the same with one sink and with thirty. The loops read only
//! when the head has passed them.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outbox::Position;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::board::Board;
use crate::outage::{News, Outage};
use crate::store::{Head, Store};

/// The pause between two looks while events keep coming.
const BUSY_INTERVAL: Duration = Duration::from_millis(5);
/// The longest pause between two looks while the database does not answer.
const OUTAGE_INTERVAL: Duration = Duration::from_secs(5);

/// What the loops hold: the head as it was last seen, and word of its changes.
///
/// Those who wait are woken in the order in which they began to wait. (tokio's `watch`
/// draws lots, and then no run of the simulation could be repeated.)
#[derive(Clone, Debug, Default)]
pub struct HeadReceiver(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    head: Mutex<Option<Head>>,
    changed: Notify,
}

impl HeadReceiver {
    /// The head as it was last seen.
    #[must_use]
    pub fn last(&self) -> Option<Head> {
        *self.known()
    }

    /// Waits until `news` is true of the head, and returns it. Pends for ever once the
    /// polling has ended.
    async fn wait_for(&self, news: impl Fn(Head) -> bool) -> Head {
        loop {
            // Made before the look: what changes after it is not missed.
            let changed = self.0.changed.notified();
            if let Some(head) = self.last().filter(|head| news(*head)) {
                return head;
            }
            changed.await;
        }
    }

    /// Takes note of a head, and tells those who wait if there is anything new to it.
    fn tell(&self, seen: Head) -> bool {
        let told = |head: Head| (head.newest, head.operation, head.history);
        let moved = self.known().replace(seen).map(told) != Some(told(seen));
        if moved {
            self.0.changed.notify_waiters();
        }
        moved
    }

    fn known(&self) -> MutexGuard<'_, Option<Head>> {
        self.0.head.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Polls the head for ever, and tells who holds `head`.
pub async fn watch_head<S: Store>(
    store: Arc<S>,
    max_interval: Duration,
    head: HeadReceiver,
    board: Arc<Board>,
) {
    let mut outage = Outage::default();
    let mut interval = BUSY_INTERVAL;
    loop {
        let looked = store.head().await;
        board.looked_at_head(looked.is_ok());
        match looked {
            Ok(seen) => {
                if let Some(lasted) = outage.ended() {
                    info!(lasted_s = lasted.as_secs(), "database answers again");
                    interval = BUSY_INTERVAL;
                }
                let moved = head.tell(seen);
                interval = next_interval(interval, moved, max_interval);
            }
            Err(error) => {
                let reason = error.to_string();
                match outage.failed(&reason) {
                    News::Started => warn!(error = reason, "database does not answer"),
                    News::Changed => warn!(error = reason, "database still does not answer"),
                    News::Same => {}
                }
                interval = (interval * 2).min(OUTAGE_INTERVAL);
            }
        }
        sleep(interval).await;
    }
}

/// Milliseconds while events come, doubling up to `max` while they don't.
fn next_interval(interval: Duration, moved: bool, max: Duration) -> Duration {
    if moved {
        BUSY_INTERVAL.min(max)
    } else {
        (interval * 2).min(max)
    }
}

/// Waits until there is something after `position`, and returns the head; or a head
/// of a later history than `history`. Pends for ever once the polling has ended.
pub async fn head_beyond(head: &HeadReceiver, position: Position, history: u64) -> Head {
    let news = |head: Head| match head.history.cmp(&history) {
        Ordering::Less => false,
        Ordering::Equal => head.newest > Some(position),
        Ordering::Greater => true,
    };
    head.wait_for(news).await
}

/// Waits until the head was seen once.
pub(crate) async fn first_head(head: &HeadReceiver) {
    head.wait_for(|_| true).await;
}

/// The last operator's command, once the head was seen.
pub(crate) fn last_operation(head: &HeadReceiver) -> Option<i64> {
    head.last().map(|head| head.operation)
}

/// Waits for an operator's command after the one that is known; for ever if none is
/// known yet, or the polling has ended.
pub(crate) async fn next_operation(head: &HeadReceiver, known: Option<i64>) {
    let news = |head: Head| known.is_some_and(|known| head.operation != known);
    head.wait_for(news).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_grows_while_idle_and_falls_back_at_once() {
        let max = Duration::from_millis(250);
        let mut interval = BUSY_INTERVAL;
        let mut looks = 0;
        while interval < max {
            interval = next_interval(interval, false, max);
            looks += 1;
        }
        assert!(looks <= 6, "{looks}");
        assert_eq!(next_interval(max, true, max), BUSY_INTERVAL);
        assert_eq!(
            next_interval(max, true, Duration::from_millis(1)),
            Duration::from_millis(1)
        );
    }
}
