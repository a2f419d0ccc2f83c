//! Looking at the head, as often as it is worth it.

use std::sync::Arc;
use std::time::Duration;

use outbox::{Filter, Position};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

use super::HeadReceiver;
use crate::board::Board;
use crate::outage::{News, Outage};
use crate::store::{Head, Page, PageEnd, Store, StoreError, TailRange};

/// The time from one look to the next while events keep coming: an event waits half of it.
/// At 1,000 events a second the looks, with all that they bring and what is saved of it, took
/// 14 % of a core here and in Postgres together (`make bench SECTION=scale`).
const BUSY_INTERVAL: Duration = Duration::from_millis(1);
/// The same while every loop is behind, and none waits for the news.
const UNFOLLOWED_INTERVAL: Duration = Duration::from_millis(25);
/// A look comes when another such part of the silence so far has passed: few looks for a
/// long silence, and no event waits for more than that part of the time between two.
const PARTS_OF_SILENCE: u32 = 4;
/// The first pause, doubled with each, while the database does not answer; and the longest.
const OUTAGE_INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));
/// The most that one look reads: what a loop that is behind would read at once, too.
const MAX_EVENTS: usize = 1_000;
const MAX_BYTES: usize = 1 << 20;

/// Looks at the head for ever, and tells who holds `head`.
pub async fn watch_head<S: Store>(
    store: Arc<S>,
    max_interval: Duration,
    head: HeadReceiver,
    board: Arc<Board>,
) {
    let mut outage = Outage::default();
    let mut pause = OUTAGE_INTERVALS.0;
    let mut last_news = Instant::now();
    let mut reader = None;
    let mut failed = false;
    loop {
        let began = Instant::now();
        // Rows that can't be read, for their size perhaps, must not hide what operators
        // order. After a failure they are left to the loops.
        let after = head.known().reads_on().filter(|_| !failed);
        let looked = look(&*store, &mut reader, after).await;
        failed = looked.is_err();
        board.looked_at_head(!failed);
        match looked {
            Ok((seen, page)) => {
                if let Some(lasted) = outage.ended() {
                    info!(lasted_s = lasted.as_secs(), "database answers again");
                    pause = OUTAGE_INTERVALS.0;
                }
                let more = page
                    .as_ref()
                    .is_some_and(|it| it.ended_by != PageEnd::Horizon);
                if head.tell(seen, page) {
                    last_news = began;
                }
                if !more {
                    wait(began, began - last_news, max_interval, &head).await;
                }
            }
            Err(error) => {
                let reason = error.to_string();
                match outage.failed(&reason) {
                    News::Started => warn!(error = reason, "database does not answer"),
                    News::Changed => warn!(error = reason, "database still does not answer"),
                    News::Same => {}
                }
                sleep(pause).await;
                pause = (pause * 2).min(OUTAGE_INTERVALS.1);
            }
        }
    }
}

/// Looks at the head, and reads on from `after` if a loop is near enough to want that.
async fn look<S: Store>(
    store: &S,
    reader: &mut Option<S::Reader>,
    after: Option<Position>,
) -> Result<(Head, Option<Page>), StoreError> {
    let Some(after) = after else {
        return Ok((store.head().await?, None));
    };
    let reader = match reader {
        Some(reader) => reader,
        // It reads for all: the loops filter for themselves.
        none => none.insert(store.reader(&Filter::default()).await?),
    };
    let range = TailRange {
        after,
        max_events: MAX_EVENTS,
        max_bytes: MAX_BYTES,
    };
    let tail = store.tail(reader, range).await?;
    // Read while the history may have changed, it may belong to either.
    let certain = store.history() == tail.head.history;
    Ok((tail.head, certain.then_some(tail.page)))
}

/// The time from one look to the next after so long without news. `followed` says whether
/// a loop is near.
fn interval(silence: Duration, followed: bool, max: Duration) -> Duration {
    let least = match followed {
        true => BUSY_INTERVAL,
        false => UNFOLLOWED_INTERVAL,
    };
    (silence / PARTS_OF_SILENCE).max(least).min(max)
}

/// Waits until the next look is due. Counts from the last one: a timer that is late by
/// up to a millisecond, as tokio's are, then makes no look later than the one before.
async fn wait(began: Instant, silence: Duration, max: Duration, head: &HeadReceiver) {
    let followed = head.known().reads_on().is_some();
    let due = began + interval(silence, followed, max);
    if followed {
        return sleep_until(due).await;
    }
    // Whoever catches up meanwhile is served at once.
    let caught_up = head.0.caught_up.notified();
    tokio::select! {
        biased;
        () = caught_up => {}
        () = sleep_until(due) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(250);

    #[test]
    fn the_interval_grows_with_the_silence_and_falls_back_at_once() {
        let (mut silence, mut looks) = (Duration::ZERO, 0);
        while interval(silence, true, MAX) < MAX {
            silence += interval(silence, true, MAX);
            looks += 1;
        }
        assert!(looks <= 30, "{looks}");
        assert!(silence <= MAX * (PARTS_OF_SILENCE + 1), "{silence:?}");
        assert_eq!(interval(Duration::ZERO, true, MAX), BUSY_INTERVAL);
    }

    #[test]
    fn few_looks_are_worth_it_while_nobody_waits() {
        assert_eq!(interval(Duration::ZERO, false, MAX), UNFOLLOWED_INTERVAL);
        assert_eq!(interval(Duration::from_secs(9), false, MAX), MAX);
        let short = Duration::from_millis(2);
        assert_eq!(interval(Duration::from_secs(9), false, short), short);
    }
}
