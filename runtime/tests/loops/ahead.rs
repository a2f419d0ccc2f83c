//! A sink may begin with the next batch while it delivers one.

use std::sync::Arc;
use std::time::Duration;

use outbox_sinks::SinkError;

use crate::support::{Destination, MemoryStore, Worker, cursor_at, until};

const NINE: [&str; 9] = ["a.b"; 9];

/// Nine events for a sink that takes a second for three of them, and begins ahead.
fn nine() -> (Arc<MemoryStore>, Destination) {
    let (store, destination) = (MemoryStore::with_events(&NINE), Destination::default());
    destination.take(Duration::from_secs(1));
    destination.begin_ahead();
    (store, destination)
}

async fn all_delivered(store: &Arc<MemoryStore>, worker: Worker) {
    until("the cursor is at the end", || cursor_at(store, 9)).await;
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_batch_is_begun_once_and_comes_next() {
    let (store, destination) = nine();
    let worker = Worker::start(&store, &destination, "w1");
    all_delivered(&store, worker).await;
    assert_eq!(destination.begun(), [vec![4, 5, 6], vec![7, 8, 9]]);
    assert_eq!(
        destination.deliveries(),
        [vec![1, 2, 3], vec![4, 5, 6], vec![7, 8, 9]]
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_what_was_begun_and_begins_nothing_more() {
    let (store, destination) = nine();
    let worker = Worker::start(&store, &destination, "w1");
    until("a batch was begun", || destination.begun().len() == 1).await;
    worker.stopped().await;
    assert_eq!(destination.deliveries(), [vec![1, 2, 3], vec![4, 5, 6]]);
    assert_eq!(destination.begun(), [vec![4, 5, 6]]);
    assert!(cursor_at(&store, 6));
}

#[tokio::test(start_paused = true)]
async fn whoever_orders_a_pause_finds_what_was_begun_in_the_row() {
    let (store, destination) = nine();
    let worker = Worker::start(&store, &destination, "w1");
    until("a batch was begun", || destination.begun().len() == 1).await;
    store.look(|state| state.order(|state| state.cursor.paused = Some("maintenance".to_owned())));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(destination.deliveries(), [vec![1, 2, 3], vec![4, 5, 6]]);
    assert!(cursor_at(&store, 6));
    store.look(|state| state.order(|state| state.cursor.paused = None));
    all_delivered(&store, worker).await;
    assert_eq!(destination.taken(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_nothing_is_begun_before_that_is_mended() {
    let (store, destination) = nine();
    for _ in 0..2 {
        destination.answer(|_| Err(SinkError::unavailable("connect")));
    }
    let worker = Worker::start(&store, &destination, "w1");
    all_delivered(&store, worker).await;
    let (first, second, third) = (vec![1, 2, 3], vec![4, 5, 6], vec![7, 8, 9]);
    assert_eq!(destination.begun(), [second.clone(), third.clone()]);
    assert_eq!(
        destination.deliveries(),
        [first.clone(), first.clone(), first, second, third]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_begun_of_frozen_ranges() {
    let (store, destination) = nine();
    destination.freeze();
    let worker = Worker::start(&store, &destination, "w1");
    all_delivered(&store, worker).await;
    assert!(destination.begun().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_begun_where_each_batch_is_to_be_saved_first() {
    let (store, destination) = nine();
    let worker = Worker::start_saving(&store, &destination, "w1", Duration::ZERO);
    all_delivered(&store, worker).await;
    assert!(destination.begun().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_begun_for_a_while_after_a_death() {
    let (store, destination) = nine();
    let worker = Worker::start(&store, &destination, "w1");
    until("a batch was begun", || destination.begun().len() == 1).await;
    worker.killed().await;
    let worker = Worker::start(&store, &destination, "w2");
    all_delivered(&store, worker).await;
    assert_eq!(destination.begun(), [vec![4, 5, 6]]);
}
