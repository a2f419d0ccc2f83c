//! Loops at the head share what one look has read; who is behind reads alone.

use std::sync::Arc;
use std::time::Duration;

use outbox::{Filter, Position};
use outbox_runtime::board::Board;
use outbox_runtime::feed::{Fed, Feed, From};
use outbox_runtime::head::{HeadReceiver, watch_head};
use outbox_sinks::BatchLimits;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::support::{FIVE, MemoryStore};

/// A process that reads, without sinks: the look at the head, and feeds.
struct Reading {
    store: Arc<MemoryStore>,
    head: HeadReceiver,
    board: Arc<Board>,
    _watch: AbortOnDropHandle<()>,
}

impl Reading {
    #[expect(clippy::disallowed_methods, reason = "the test plays the supervisor")]
    fn start(store: Arc<MemoryStore>) -> Self {
        let (head, board) = (HeadReceiver::default(), Arc::new(Board::default()));
        let (told, looks) = (head.clone(), Arc::clone(&board));
        let max_interval = Duration::from_millis(250);
        let watching = watch_head(Arc::clone(&store), max_interval, told, looks);
        Self {
            store,
            head,
            board,
            _watch: AbortOnDropHandle::new(tokio::spawn(watching)),
        }
    }

    fn feed(&self, after: u64, filter: Filter) -> Feed {
        self.read(after, None, filter)
    }

    /// Goes on with a range that ends at `end`.
    fn begun(&self, after: u64, end: u64) -> Feed {
        self.read(after, Some(Position::new(end, 1)), Filter::default())
    }

    fn read(&self, after: u64, exact: Option<Position>, filter: Filter) -> Feed {
        let from = From {
            after: Position::new(after, 1),
            history: 0,
            exact,
        };
        let board = self.board.announce("a", "scripted");
        let (store, head) = (Arc::clone(&self.store), self.head.clone());
        Feed::start(store, head, board, from, filter, BatchLimits::default())
    }

    /// Publishes so many events, each for a look of its own.
    async fn publish(&self, count: usize) {
        for _ in 0..count {
            self.store.publish("a.more");
            sleep(Duration::from_millis(3)).await;
        }
    }

    fn reads(&self) -> usize {
        self.store.look(|state| state.reads)
    }
}

/// What a feed hands out until it has passed a transaction, and no more.
async fn read_to(feed: &mut Feed, last: u64) -> Vec<u64> {
    let mut read = Vec::new();
    loop {
        let fed = timeout(Duration::from_secs(60), feed.next()).await;
        let end = match fed.expect("there is more").expect("of this history") {
            Fed::Batch { batch, end, .. } => {
                read.extend(batch.iter().map(|it| it.position().txid.0));
                end
            }
            Fed::Passed { end } => end,
        };
        if end >= Position::new(last, 1) {
            assert_eq!(end, Position::new(last, 1));
            return read;
        }
    }
}

fn all(events: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    events.collect()
}

#[tokio::test(start_paused = true)]
async fn loops_at_the_head_share_each_read() {
    let reading = Reading::start(MemoryStore::with_events(&FIVE));
    let feed = || reading.feed(0, Filter::default());
    let mut feeds: Vec<_> = (0..8).map(|_| feed()).collect();
    for feed in &mut feeds {
        assert_eq!(read_to(feed, 5).await, all(1..=5));
    }
    let alone = reading.reads();
    assert_eq!(alone, 8, "to catch up, each reads for itself");
    reading.publish(100).await;
    for feed in &mut feeds {
        assert_eq!(read_to(feed, 105).await, all(6..=105));
    }
    assert_eq!(reading.reads(), alone);
    let tails = reading.store.look(|state| state.tails);
    assert!((100..1_000).contains(&tails), "{tails}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_grows_while_its_loop_is_busy() {
    let reading = Reading::start(MemoryStore::with_events(&FIVE));
    let mut feed = reading.feed(0, Filter::default());
    assert_eq!(read_to(&mut feed, 5).await, all(1..=5));
    reading.publish(100).await;
    let Some(Fed::Batch { batch, .. }) = feed.next().await else {
        panic!("there is a batch");
    };
    assert_eq!((batch.len(), batch.end().txid.0), (100, 105));
    // Nobody is kept waiting for company.
    reading.publish(1).await;
    let one = timeout(Duration::from_millis(10), feed.next()).await;
    assert!(matches!(one, Ok(Some(Fed::Batch { batch, .. })) if batch.len() == 1));
}

#[tokio::test(start_paused = true)]
async fn a_range_that_was_begun_is_complete_only_below_the_horizon() {
    let reading = Reading::start(MemoryStore::with_events(&FIVE));
    // The holder before has seen further than this process has, after a quick takeover.
    let mut feed = reading.begun(0, 7);
    sleep(Duration::from_millis(50)).await;
    reading.publish(2).await;
    assert_eq!(read_to(&mut feed, 7).await, all(1..=7));
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_falls_behind_reads_alone_and_comes_back() {
    let reading = Reading::start(MemoryStore::with_events(&FIVE));
    let (mut slow, mut quick) = (
        reading.feed(0, Filter::default()),
        reading.feed(0, Filter::default()),
    );
    assert_eq!(read_to(&mut quick, 5).await, all(1..=5));
    assert_eq!(read_to(&mut slow, 5).await, all(1..=5));
    let mut last = 5;
    for _ in 0..30 {
        reading.publish(100).await;
        last += 100;
        read_to(&mut quick, last).await;
    }
    let before = reading.reads();
    // A thousand wait for it as a batch. More looks than are kept have come since: the oldest
    // of what it has not read is gone.
    assert_eq!(read_to(&mut slow, last).await, all(6..=last));
    let alone = reading.reads();
    assert!(alone > before, "it read for itself");
    reading.publish(10).await;
    assert_eq!(
        read_to(&mut slow, last + 10).await,
        all(last + 1..=last + 10)
    );
    assert_eq!(reading.reads(), alone, "it is back");
}

#[tokio::test(start_paused = true)]
async fn what_came_while_nobody_was_near_is_read_alone_and_not_skipped() {
    let reading = Reading::start(MemoryStore::with_events(&FIVE));
    let mut first = reading.feed(0, Filter::default());
    assert_eq!(read_to(&mut first, 5).await, all(1..=5));
    reading.publish(5).await;
    assert_eq!(read_to(&mut first, 10).await, all(6..=10));
    // Pages are kept for who is near; far behind, nobody is.
    drop(first);
    reading.publish(50).await;
    sleep(Duration::from_secs(1)).await;
    let mut far = reading.feed(60, Filter::default());
    reading.publish(5).await;
    assert_eq!(read_to(&mut far, 65).await, all(61..=65));
    let mut again = reading.feed(7, Filter::default());
    assert_eq!(read_to(&mut again, 65).await, all(8..=65));
}

#[tokio::test(start_paused = true)]
async fn a_filter_is_applied_to_what_was_read_for_all() {
    let reading = Reading::start(MemoryStore::with_events(&FIVE));
    let narrow = Filter {
        types: vec!["b.*".parse().unwrap()],
        tenants: Vec::new(),
    };
    let (mut narrow, mut wide) = (reading.feed(0, narrow), reading.feed(0, Filter::default()));
    assert_eq!(read_to(&mut narrow, 5).await, [3]);
    assert_eq!(read_to(&mut wide, 5).await, all(1..=5));
    let alone = reading.reads();
    for _ in 0..4 {
        reading.publish(9).await;
        reading.store.publish("b.rare");
        sleep(Duration::from_millis(3)).await;
    }
    reading.publish(5).await;
    assert_eq!(read_to(&mut narrow, 50).await, [15, 25, 35, 45]);
    assert_eq!(read_to(&mut wide, 50).await, all(6..=50));
    assert_eq!(reading.reads(), alone);
}

#[tokio::test(start_paused = true)]
async fn word_that_events_were_passed_over_comes_seldom() {
    let reading = Reading::start(MemoryStore::with_events(&FIVE));
    let none = Filter {
        types: vec!["c.*".parse().unwrap()],
        tenants: Vec::new(),
    };
    let mut feed = reading.feed(0, none);
    assert_eq!(read_to(&mut feed, 5).await, Vec::<u64>::new());
    let counting = async {
        let mut words = 0;
        while let Some(Fed::Passed { end }) = feed.next().await {
            words += 1;
            if end >= Position::new(1_005, 1) {
                break;
            }
        }
        words
    };
    // A thousand events in three seconds.
    let (words, ()) = tokio::join!(counting, reading.publish(1_000));
    assert!((20..=80).contains(&words), "{words}");
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_read_for_all_is_read_alone_and_hides_no_orders() {
    let reading = Reading::start(MemoryStore::with_events(&FIVE));
    let mut feed = reading.feed(0, Filter::default());
    assert_eq!(read_to(&mut feed, 5).await, all(1..=5));
    reading.store.look(|state| state.tails_fail = true);
    reading.publish(20).await;
    assert_eq!(read_to(&mut feed, 25).await, all(6..=25));
    reading.store.look(|state| state.operation = 7);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(reading.head.last().unwrap().operation, 7);
    reading.store.look(|state| state.tails_fail = false);
    reading.publish(1).await;
    assert_eq!(read_to(&mut feed, 26).await, [26]);
    let alone = reading.reads();
    reading.publish(20).await;
    assert_eq!(read_to(&mut feed, 46).await, all(27..=46));
    assert_eq!(reading.reads(), alone);
}

#[tokio::test(start_paused = true)]
async fn reading_ends_when_the_history_does() {
    let reading = Reading::start(MemoryStore::with_events(&FIVE));
    let mut feed = reading.feed(0, Filter::default());
    assert_eq!(read_to(&mut feed, 5).await, all(1..=5));
    reading.publish(3).await;
    assert_eq!(read_to(&mut feed, 8).await, all(6..=8));
    reading.store.look(|state| state.history += 1);
    reading.publish(3).await;
    assert!(feed.next().await.is_none(), "nothing of the other history");
}
