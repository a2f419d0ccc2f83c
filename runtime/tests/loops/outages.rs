//! Destinations and databases that are away.

use std::time::Duration;

use outbox::{Origin, Position};
use outbox_sinks::SinkError;
use tokio::time::Instant;

use crate::support::{Destination, FIVE, MemoryStore, Worker, cursor_at, until};

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
