//! Ranges that come again as they were (OB-8).

use std::time::Duration;

use outbox::Position;
use outbox_runtime::settings::BatchOverrides;
use outbox_sinks::{Delivery, SinkError, Verdict};

use crate::support::{Destination, FIVE, MemoryStore, Worker, cursor_at, settings, until};

#[tokio::test(start_paused = true)]
async fn a_range_that_was_begun_comes_again_whatever_has_arrived_and_whatever_the_limits_say() {
    let (store, destination) = (MemoryStore::with_events(&FIVE[..2]), Destination::default());
    destination.freeze();
    destination.take(Duration::from_secs(10));
    let worker = Worker::start(&store, &destination, "w1");
    until("a delivery has begun", || {
        destination.deliveries().len() == 1
    })
    .await;
    assert_eq!(
        store.look(|state| state.cursor.in_hand),
        Some(Position::new(2, 1)),
        "written down before it is sent"
    );
    worker.killed().await;
    for event_type in &FIVE[2..] {
        store.publish(event_type);
    }
    let mut sink = settings();
    sink.batch = BatchOverrides {
        max_events: Some(1),
        ..BatchOverrides::default()
    };
    let worker = Worker::start_with(&store, &destination, "w2", sink);
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(
        destination.deliveries(),
        [vec![1, 2], vec![1, 2], vec![3], vec![4], vec![5]]
    );
}

#[tokio::test(start_paused = true)]
async fn a_range_is_retried_and_settled_as_a_whole() {
    let (store, destination) = (MemoryStore::with_events(&FIVE[..3]), Destination::default());
    destination.freeze();
    destination.answer(|_| {
        let verdicts = [Verdict::Delivered, Verdict::Unconfirmed, Verdict::Delivered];
        Ok(Delivery::Each(verdicts.to_vec()))
    });
    destination.answer(|_| Err(SinkError::unavailable("connect")));
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 3)).await;
    worker.stopped().await;
    assert_eq!(destination.deliveries(), [[1, 2, 3]; 3]);
    assert_eq!(store.look(|state| state.saves.len()), 1);
    assert_eq!(
        store.look(|state| state.marks.len()),
        1,
        "once for the range"
    );
}
