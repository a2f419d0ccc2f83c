//! Stops, takeovers and zombies.

use std::time::Duration;

use outbox::Position;
use outbox_sinks::{Delivery, SinkError, Verdict};
use tokio::time::Instant;

use crate::support::{Destination, FIVE, MemoryStore, Worker, cursor_at, settings, until};

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
