//! Reading ahead, filters and the limits of a batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use outbox_runtime::settings::BatchOverrides;
use outbox_sinks::Delivery;
use tokio::time::Instant;

use crate::support::{Destination, FIVE, MemoryStore, Worker, cursor_at, settings, until};

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
