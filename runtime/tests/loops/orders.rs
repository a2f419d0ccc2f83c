//! What operators order takes effect at once, and through the loop that owns the cursor.

use std::time::Duration;

use outbox::{Origin, Position};
use outbox_sinks::SinkError;
use tokio::time::Instant;

use crate::support::{Destination, FIVE, MemoryStore, Worker, cursor_at, settings, until};

#[tokio::test(start_paused = true)]
async fn a_seek_takes_effect_at_once_in_both_directions() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    let asked_at = Instant::now();
    let back = Some(Position::new(3, 1));
    store.look(|state| state.order(|state| state.seek = back));
    until("the tail is delivered again", || {
        destination.deliveries().last() == Some(&vec![4, 5]) && destination.deliveries().len() == 3
    })
    .await;
    assert!(asked_at.elapsed() < Duration::from_secs(1));
    assert_eq!(
        store.look(|state| state.cursor_token),
        1,
        "the same owner did it"
    );
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_seek_ends_the_longest_pause() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    for _ in 0..20 {
        destination.answer(|_| Err(SinkError::unavailable("connect")));
    }
    let worker = Worker::start(&store, &destination, "w1");
    until("it waits for minutes", || {
        store.look(|state| state.attempts() == 10)
    })
    .await;
    let (asked_at, made) = (Instant::now(), destination.deliveries().len());
    let forth = Some(Position::new(4, 1));
    store.look(|state| state.order(|state| state.seek = forth));
    until("it goes on from there", || {
        destination.deliveries().len() > made
    })
    .await;
    assert!(asked_at.elapsed() < Duration::from_secs(1));
    assert_eq!(destination.deliveries().last(), Some(&vec![5]));
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_sink_delivers_nothing_until_it_is_resumed() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    store.look(|state| state.cursor.paused = Some("maintenance".to_owned()));
    let worker = Worker::start(&store, &destination, "w1");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(destination.deliveries().is_empty());
    let resumed_at = Instant::now();
    store.look(|state| state.order(|state| state.cursor.paused = None));
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    assert!(resumed_at.elapsed() < Duration::from_secs(1));
    store.look(|state| state.order(|state| state.cursor.paused = Some(String::new())));
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.publish("a.later");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(cursor_at(&store, 5), "paused while it was idle");
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_adopted_goes_on_at_once() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    store.look(|state| state.cursor.origin = Origin::ForeignEvents);
    let worker = Worker::start(&store, &destination, "w1");
    tokio::time::sleep(Duration::from_secs(65)).await;
    let adopted_at = Instant::now();
    store.look(|state| {
        state.order(|state| {
            state.cursor.origin = Origin::Here;
            state.retry_at = None;
        });
    });
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    assert!(adopted_at.elapsed() < Duration::from_secs(2));
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_seek_is_not_undone_by_what_was_passed_before_it() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let mut sink = settings();
    sink.filter.types = vec!["none.*".parse().unwrap()];
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let pause = Some(String::new());
    store.look(|state| state.order(|state| state.cursor.paused = pause));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let back = Some(Position::BEGINNING);
    store.look(|state| state.order(|state| state.seek = back));
    tokio::time::sleep(Duration::from_secs(1)).await;
    worker.stopped().await;
    assert_eq!(
        store.look(|state| state.cursor.position),
        Position::BEGINNING
    );
}

#[tokio::test(start_paused = true)]
async fn an_order_for_somebody_else_does_not_make_a_batch_wait_longer() {
    let (store, destination) = (MemoryStore::with_events(&FIVE[..1]), Destination::default());
    let mut sink = settings();
    sink.batch.max_wait = Some(Duration::from_secs(60));
    let began = Instant::now();
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        store.look(|state| state.order(|_| {}));
    }
    until("the batch is delivered", || cursor_at(&store, 1)).await;
    assert!(began.elapsed() < Duration::from_secs(62));
    worker.stopped().await;
}
