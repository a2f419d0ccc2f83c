//! Deliveries, and how the cursor follows them.

use outbox_sinks::{Delivery, Refusal, Verdict};

use crate::support::{Destination, FIVE, MemoryStore, Worker, cursor_at, until};

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
