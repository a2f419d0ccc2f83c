//! Processes that die, and the hunt for the event that kills them (H6).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::support::{Destination, FIVE, MemoryStore, Worker, cursor_at, until};

#[tokio::test(start_paused = true)]
async fn normal_flight_writes_nothing_down_and_a_hunt_ends() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.take(Duration::from_secs(5));
    let worker = Worker::start(&store, &destination, "w1");
    until("a delivery has begun", || {
        destination.deliveries().len() == 1
    })
    .await;
    assert!(store.look(|state| state.marks.is_empty()));
    worker.killed().await;

    let worker = Worker::start(&store, &destination, "w2");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    let marks = store.look(|state| state.marks.clone());
    assert_eq!(marks.len(), 1, "what may have been in hand, and no more");
    assert_eq!(marks[0].hunt, Some(marks[0].end));
    assert!(store.look(|state| state.cursor.hunt.is_none()));
}

/// A process with a sink that kills it when it gets transaction 4.
async fn until_killed(store: &Arc<MemoryStore>, destination: &Destination, name: &str) -> bool {
    let killed = Arc::new(AtomicBool::default());
    let seen = Arc::clone(&killed);
    destination.rule(move |batch| {
        if batch.iter().any(|event| event.position().txid.0 == 4) {
            seen.store(true, Relaxed);
        }
        Ok(outbox_sinks::Delivery::All)
    });
    destination.take(Duration::from_millis(10));
    let worker = Worker::start(store, destination, name);
    loop {
        let in_hand = destination.deliveries().last().cloned().unwrap_or_default();
        if in_hand.contains(&4) && !cursor_at(store, 5) {
            worker.killed().await;
            return true;
        }
        if cursor_at(store, 5) {
            worker.stopped().await;
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_kills_the_process_is_found_and_dead_lettered() {
    let store = MemoryStore::with_events(&FIVE);
    let mut processes = 0;
    loop {
        // Each process sees its own deliveries only.
        let destination = Destination::default();
        processes += 1;
        let name = format!("w{processes}");
        if !until_killed(&store, &destination, &name).await {
            break;
        }
        assert!(processes < 40, "it is never found");
    }
    let dead = store.look(|state| state.dead_letters.clone());
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].event.position().txid.0, 4);
    assert_eq!(dead[0].code, "CRASHED");
    assert!(processes <= 12, "{processes} processes");
}

#[tokio::test(start_paused = true)]
async fn one_sink_at_a_time_does_what_a_death_would_be_laid_to() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let names = ["a", "b", "c"];
    destination.take(Duration::from_secs(5));
    let worker = Worker::start_many(&store, &destination, "w1", &names);
    until("deliveries have begun", || {
        destination.deliveries().len() == 3
    })
    .await;
    worker.killed().await;
    let worker = Worker::start_many(&store, &destination, "w2", &names);
    until("a marked delivery has begun", || {
        store.look(|state| !state.marks.is_empty())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(store.look(|state| state.marks.len()), 1);
    assert_eq!(destination.deliveries().len(), 4);
    worker.killed().await;
}

/// A process with a sink that kills it when it gets this transaction, quick enough to leave
/// some batches unsaved. Whether it died of it.
async fn killed_by(deadly: u64, store: &Arc<MemoryStore>, name: &str) -> bool {
    let destination = Destination::default();
    destination.take(Duration::from_millis(10));
    let worker = Worker::start(store, &destination, name);
    loop {
        let in_hand = destination.deliveries().last().cloned();
        if in_hand.is_some_and(|batch| batch.contains(&deadly)) {
            worker.killed().await;
            return true;
        }
        if cursor_at(store, 60) {
            worker.stopped().await;
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_kills_some_batches_behind_the_cursor_is_found_as_well() {
    let store = MemoryStore::with_events(&["a.b"; 60]);
    let mut processes = 0;
    while killed_by(50, &store, &format!("w{processes}")).await {
        processes += 1;
        if processes == 1 {
            let behind = 50 - store.look(|state| state.cursor.position.txid.0);
            assert!(behind > 9, "some batches are unsaved: {behind}");
        }
        if processes == 2 {
            let behind = 50 - store.look(|state| state.cursor.position.txid.0);
            assert!(behind <= 3, "the next holder saves each batch: {behind}");
        }
        assert!(processes < 40, "it is never found");
    }
    let dead = store.look(|state| state.dead_letters.clone());
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].event.position().txid.0, 50);
    assert_eq!(dead[0].code, "CRASHED");
    assert!(processes <= 12, "{processes} processes");
}
