//! The real loop over a store in memory, on paused time.
#![cfg(test)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use outbox::{Origin, Position};
use outbox_runtime::settings::BatchOverrides;
use outbox_sinks::{Delivery, Refusal, SinkError, Verdict};
use support::{Destination, MemoryStore, Worker, settings, until};
use tokio::time::Instant;

const FIVE: [&str; 5] = ["a.one", "a.two", "b.three", "a.four", "a.five"];

fn cursor_at(store: &MemoryStore, txid: u64) -> bool {
    store.look(|state| state.cursor.position == Position::new(txid, 1))
}

#[tokio::test(start_paused = true)]
async fn everything_is_delivered_once_in_order_and_the_cursor_follows() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    store.publish("a.six");
    until("the new event is delivered", || cursor_at(&store, 6)).await;
    worker.stopped().await;
    assert_eq!(
        destination.deliveries(),
        [vec![1, 2, 3], vec![4, 5], vec![6]]
    );
    assert_eq!(destination.opened(), [1], "one sink for one lease");
}

#[tokio::test(start_paused = true)]
async fn an_outage_backs_off_and_delivers_the_same_batch_again() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    for _ in 0..4 {
        destination.answer(|_| Err(SinkError::unavailable("connect")));
    }
    let began = Instant::now();
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    let seconds = began.elapsed().as_secs_f64();
    assert!(
        (12.0..=15.5).contains(&seconds),
        "1 + 2 + 4 + 8 s less jitter, not {seconds}"
    );
    let mut expected = vec![vec![1, 2, 3]; 5];
    expected.push(vec![4, 5]);
    assert_eq!(destination.deliveries(), expected);
    assert_eq!(store.look(|state| state.last_error.clone()), None);
}

#[tokio::test(start_paused = true)]
async fn only_what_was_not_delivered_is_tried_again_and_the_cursor_waits_before_it() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.answer(|_| {
        let refused = Verdict::Refused(Refusal::new("NO", "not now"));
        Ok(Delivery::Each(vec![
            Verdict::Delivered,
            refused,
            Verdict::Delivered,
        ]))
    });
    let worker = Worker::start(&store, &destination, "w1");
    until("the first attempt is noted", || {
        store.look(|state| state.attempts() == 1)
    })
    .await;
    assert!(cursor_at(&store, 1), "not past the refused event");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(
        destination.deliveries(),
        [vec![1, 2, 3], vec![2], vec![4, 5]]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_kept_by_the_next_holder() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    for _ in 0..20 {
        destination.answer(|_| Err(SinkError::unavailable("connect")));
    }
    let worker = Worker::start(&store, &destination, "w1");
    until("the seventh attempt is noted", || {
        store.look(|state| state.attempts() == 7)
    })
    .await;
    worker.stopped().await;
    let before = destination.deliveries().len();
    let retry_at = store.look(|state| state.retry_at.unwrap());

    let worker = Worker::start(&store, &destination, "w2");
    until("the next attempt is made", || {
        destination.deliveries().len() > before
    })
    .await;
    assert!(
        Instant::now() >= retry_at,
        "the pause that the first holder began counts"
    );
    assert_eq!(store.look(|state| state.attempts()), 8);
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_the_delivery_in_hand_saves_and_releases() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.take(Duration::from_secs(4));
    let worker = Worker::start(&store, &destination, "w1");
    until("a delivery has begun", || {
        destination.deliveries().len() == 1
    })
    .await;
    worker.stopped().await;
    assert!(
        cursor_at(&store, 3),
        "the delivery in hand was finished and saved"
    );
    assert_eq!(
        destination.deliveries(),
        [vec![1, 2, 3]],
        "and nothing after it was begun"
    );
    let held_until = store.look(|state| state.leases["singleton:outbox-dispatch:test"].1);
    assert_eq!(held_until, None, "the lease is free at once");
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_delivery_for_ever_and_is_no_attempt() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.take(Duration::from_secs(3_600));
    let worker = Worker::start(&store, &destination, "w1");
    until("a delivery has begun", || {
        destination.deliveries().len() == 1
    })
    .await;
    let asked_at = Instant::now();
    worker.stopped().await;
    assert!(asked_at.elapsed() <= Duration::from_secs(11));
    assert_eq!(
        store.look(|state| (state.attempts(), state.cursor.position)),
        (0, Position::BEGINNING)
    );
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_fails_during_a_stop_is_no_attempt() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.take(Duration::from_secs(4));
    destination.answer(|_| {
        let open = Verdict::Unconfirmed;
        Ok(Delivery::Each(vec![Verdict::Delivered, open.clone(), open]))
    });
    let worker = Worker::start(&store, &destination, "w1");
    until("a delivery has begun", || {
        destination.deliveries().len() == 1
    })
    .await;
    worker.stopped().await;
    assert_eq!(store.look(|state| state.attempts()), 0);
    assert!(cursor_at(&store, 1), "what was delivered is saved");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_renew_stops_before_another_may_start() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.take(Duration::from_secs(50));
    let first = Worker::start(&store, &destination, "w1");
    until("the first worker delivers", || {
        destination.deliveries().len() == 1
    })
    .await;
    store.look(|state| state.renewals_fail = true);
    let second = Worker::start(&store, &destination, "w2");
    until("the second worker delivers", || {
        destination.opened().len() == 2
    })
    .await;
    assert_eq!(destination.opened(), [1, 2], "under a newer token");
    store.look(|state| state.renewals_fail = false);
    until("the second worker is done", || cursor_at(&store, 5)).await;
    assert_eq!(
        destination.deliveries(),
        [vec![1, 2, 3], vec![1, 2, 3], vec![4, 5]]
    );
    assert!(
        store.look(|state| state.cursor_token) == 2,
        "only the second one wrote"
    );
    first.stopped().await;
    second.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_zombie_writes_nothing() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.take(Duration::from_secs(5));
    let worker = Worker::start(&store, &destination, "w1");
    until("a delivery has begun", || {
        destination.deliveries().len() == 1
    })
    .await;
    // Somebody newer claims the cursor while the delivery is under way.
    store.look(|state| state.cursor_token = 7);
    until("the delivery has ended", || {
        store.look(|state| state.leases["singleton:outbox-dispatch:test"].0.token > 1)
    })
    .await;
    assert_eq!(store.look(|state| state.saves.clone()), []);
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_another_history_delivers_nothing_until_somebody_decides() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    store.look(|state| state.cursor.position = Position::new(77, 1));
    let worker = Worker::start(&store, &destination, "w1");
    tokio::time::sleep(Duration::from_secs(300)).await;
    store.look(|state| {
        state.cursor.position = Position::BEGINNING;
        state.cursor.origin = Origin::OtherCluster;
    });
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(destination.deliveries().is_empty());
    store.look(|state| state.cursor.origin = Origin::Here);
    until("it goes on by itself", || cursor_at(&store, 5)).await;
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_read_before_the_connection_was_lost_moves_no_cursor() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.take(Duration::from_secs(5));
    let worker = Worker::start(&store, &destination, "w1");
    until("a delivery has begun", || {
        destination.deliveries().len() == 1
    })
    .await;
    // The database crashes and loses three commits; their transaction ids are used again.
    store.look(|state| {
        state.history += 1;
        state.events.retain(|position, _| position.txid.0 <= 2);
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.publish("a.other");
    until("the new third event is settled", || cursor_at(&store, 3)).await;
    worker.stopped().await;
    assert_eq!(destination.deliveries(), [vec![1, 2, 3], vec![1, 2, 3]]);
    assert_eq!(store.look(|state| state.saves.len()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_keeps_the_pause_of_a_sink_that_had_passed_filtered_events() {
    let (store, destination) = (MemoryStore::with_events(&["b.no"]), Destination::default());
    (0..9).for_each(|_| destination.answer(|_| Err(SinkError::unavailable("connect"))));
    let mut sink = settings();
    sink.filter.types = vec!["a.*".parse().unwrap()];
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    tokio::time::sleep(Duration::from_secs(2)).await;
    store.publish("a.yes");
    until("three attempts are noted", || {
        store.look(|state| state.attempts() == 3)
    })
    .await;
    worker.stopped().await;
    assert_eq!(
        store.look(|state| state.attempts()),
        3,
        "the pause goes on elsewhere"
    );
    assert!(
        cursor_at(&store, 1),
        "what was passed is saved with the failure"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rare_event_does_not_wait_for_the_end_of_a_backlog() {
    let mut types = vec!["b.rare"];
    types.extend(["a.common"; 4_000]);
    let (store, destination) = (MemoryStore::with_events(&types), Destination::default());
    store.look(|state| state.max_scan = 10);
    let mut sink = settings();
    sink.filter.types = vec!["b.*".parse().unwrap()];
    let (asked, reads) = (Arc::clone(&store), Arc::new(AtomicUsize::new(0)));
    let at_delivery = Arc::clone(&reads);
    destination.answer(move |_| {
        at_delivery.store(asked.look(|state| state.reads), Relaxed);
        Ok(Delivery::All)
    });
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    until("it is delivered", || !destination.deliveries().is_empty()).await;
    worker.stopped().await;
    let reads = reads.load(Relaxed);
    assert!(
        (1..10).contains(&reads),
        "{reads} reads, and not all of the backlog"
    );
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_away_for_a_while_costs_nothing_but_time() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    store.look(|state| state.down = true);
    tokio::time::sleep(Duration::from_secs(300)).await;
    store.look(|state| state.down = false);
    store.publish("a.six");
    until("the new event is delivered", || cursor_at(&store, 6)).await;
    worker.stopped().await;
    assert_eq!(
        destination.deliveries(),
        [vec![1, 2, 3], vec![4, 5], vec![6]]
    );
}

#[tokio::test(start_paused = true)]
async fn a_narrow_sink_advances_without_delivering_and_without_saving_all_the_time() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let mut sink = settings();
    sink.filter.types = vec!["b.*".parse().unwrap()];
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    until("the one event is delivered", || {
        !destination.deliveries().is_empty()
    })
    .await;
    let began = Instant::now();
    for _ in 0..600 {
        store.publish("a.more");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let saves = store.look(|state| state.saves.len());
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    assert!(
        (2..=4).contains(&saves),
        "{saves} saves in {minutes:.1} minutes"
    );
    worker.stopped().await;
    assert!(cursor_at(&store, 605), "a stop saves what was passed");
    assert_eq!(destination.deliveries(), [vec![3]]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_is_opened_anew_and_the_loop_lives() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.answer(|_| panic!("a bug in a sink"));
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(destination.opened().len(), 2);
    assert_eq!(
        destination.deliveries(),
        [vec![1, 2, 3], vec![1, 2, 3], vec![4, 5]]
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_batch_is_read_while_the_present_one_is_delivered() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.take(Duration::from_secs(2));
    let worker = Worker::start(&store, &destination, "w1");
    until("the first delivery has begun", || {
        destination.deliveries().len() == 1
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        destination.deliveries().len(),
        1,
        "the first delivery is still under way"
    );
    assert_eq!(
        store.look(|state| state.reads),
        2,
        "and the second batch is read already"
    );
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_may_wait_is_closed_by_age_or_by_size() {
    let (store, destination) = (MemoryStore::with_events(&["a.one"]), Destination::default());
    let mut sink = settings();
    let max_wait = Some(Duration::from_secs(60));
    sink.batch = BatchOverrides {
        max_events: Some(3),
        max_bytes: None,
        max_wait,
    };
    let began = Instant::now();
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    tokio::time::sleep(Duration::from_secs(30)).await;
    store.publish("a.two");
    until("the first batch is delivered", || cursor_at(&store, 2)).await;
    let waited = began.elapsed().as_secs();
    assert!(
        (60..62).contains(&waited),
        "ten events and then silence: written after max_wait"
    );
    for _ in 0..3 {
        store.publish("a.more");
    }
    until("a full batch is delivered", || cursor_at(&store, 5)).await;
    assert!(
        began.elapsed().as_secs() < waited + 2,
        "a full batch does not wait"
    );
    worker.stopped().await;
    assert_eq!(destination.deliveries(), [vec![1, 2], vec![3, 4, 5]]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_closed_by_its_bytes_and_one_large_event_still_fits() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let mut sink = settings();
    sink.batch = BatchOverrides {
        max_events: None,
        max_bytes: Some(100),
        max_wait: None,
    };
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(destination.deliveries(), [vec![1, 2], vec![3, 4], vec![5]]);
}
