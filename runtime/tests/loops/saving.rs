//! What is delivered is written later, and what that may cost.

use std::time::Duration;

use outbox::{Position, sink_lease};
use tokio::time::Instant;

use crate::support::{Destination, FIVE, MemoryStore, Worker, cursor_at, settings, until};

const LONG: Duration = Duration::from_secs(60);

fn moved(store: &MemoryStore) -> usize {
    store.look(|state| state.saves.len())
}

#[tokio::test(start_paused = true)]
async fn many_batches_are_one_save_and_the_last_one_is_saved_in_time() {
    let (store, destination) = (
        MemoryStore::with_events(&["a.b"; 90]),
        Destination::default(),
    );
    destination.take(Duration::from_millis(20));
    let worker = Worker::start(&store, &destination, "w1");
    until("all is delivered", || destination.taken().len() == 90).await;
    let done_at = Instant::now();
    until("all is saved", || cursor_at(&store, 90)).await;
    assert!(done_at.elapsed() <= Duration::from_millis(220));
    // Thirty batches took 600 ms.
    assert!((3..=5).contains(&moved(&store)), "{}", moved(&store));
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn without_an_interval_each_batch_is_saved() {
    let (store, destination) = (
        MemoryStore::with_events(&["a.b"; 30]),
        Destination::default(),
    );
    let worker = Worker::start_saving(&store, &destination, "w1", Duration::ZERO);
    until("all is saved", || cursor_at(&store, 30)).await;
    assert_eq!(moved(&store), 10);
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_delivered_is_saved_while_the_next_delivery_lasts() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let worker = Worker::start(&store, &destination, "w1");
    until("the first batch is delivered", || {
        !destination.taken().is_empty()
    })
    .await;
    destination.take(LONG / 2);
    (0..6).for_each(|_| store.publish("a.later"));
    until("a long delivery has begun", || {
        destination.deliveries().len() == 3
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(cursor_at(&store, 5));
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_saves_at_once() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let worker = Worker::start_saving(&store, &destination, "w1", LONG);
    until("all is delivered", || destination.taken().len() == 5).await;
    assert_eq!(moved(&store), 0);
    worker.stopped().await;
    assert!(cursor_at(&store, 5));
}

#[tokio::test(start_paused = true)]
async fn a_pause_leaves_a_cursor_that_says_what_was_delivered() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let worker = Worker::start_saving(&store, &destination, "w1", LONG);
    until("all is delivered", || destination.taken().len() == 5).await;
    let pause = Some("maintenance".to_owned());
    store.look(|state| state.order(|state| state.cursor.paused = pause));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(cursor_at(&store, 5));
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_seek_back_is_not_undone_by_what_was_delivered_before_it() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let worker = Worker::start_saving(&store, &destination, "w1", LONG);
    until("all is delivered", || destination.taken().len() == 5).await;
    let back = Some(Position::new(1, 1));
    store.look(|state| state.order(|state| state.seek = back));
    until("it is delivered again", || destination.taken().len() == 9).await;
    assert!(cursor_at(&store, 1), "until that is saved in its turn");
    worker.stopped().await;
    assert!(cursor_at(&store, 5));
}

#[tokio::test(start_paused = true)]
async fn what_was_delivered_goes_along_with_the_next_write() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.refuse(&[4]);
    let worker = Worker::start_saving(&store, &destination, "w1", LONG);
    until("a failure is noted", || {
        store.look(|state| state.attempts() > 0)
    })
    .await;
    assert!(cursor_at(&store, 3), "of the batch before it");
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_and_another_history_save_nothing() {
    for lease in [true, false] {
        let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
        let worker = Worker::start(&store, &destination, "w1");
        until("all is delivered", || destination.taken().len() == 5).await;
        store.look(|state| match lease {
            true => state.cursor_token += 7,
            false => state.history += 1,
        });
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert_eq!(moved(&store), 0);
        worker.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_repeats_what_was_delivered_within_the_interval_and_no_more() {
    let (store, destination) = (
        MemoryStore::with_events(&["a.b"; 300]),
        Destination::default(),
    );
    destination.take(Duration::from_millis(20));
    let worker = Worker::start(&store, &destination, "w1");
    until("half is delivered", || destination.taken().len() >= 160).await;
    let delivered = u64::try_from(destination.taken().len()).unwrap();
    worker.killed().await;
    let unsaved = delivered - store.look(|state| state.cursor.position.txid.0);
    assert!((1..=33).contains(&unsaved), "{unsaved} events in 200 ms");
    let worker = Worker::start(&store, &destination, "w2");
    until("all is saved", || cursor_at(&store, 300)).await;
    let repeated = u64::try_from(destination.taken().len()).unwrap() - 300;
    assert_eq!(repeated, unsaved);
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn sinks_save_and_renew_together_and_lose_their_leases_apart() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let names = ["a", "b", "c"];
    let worker = Worker::start_many(&store, &destination, "w1", &names);
    until("all is saved", || cursor_at(&store, 5)).await;
    assert_eq!(store.look(|state| state.joint_saves.clone()), [3]);
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(store.look(|state| state.joint_renewals.clone()), [3, 3]);
    store.look(|state| {
        let (lease, _) = state.leases.get_mut(&sink_lease("b")).unwrap();
        lease.token += 1;
        lease.holder = "w2".to_owned();
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tokens = names.map(|name| store.look(|state| state.leases[&sink_lease(name)].0.token));
    assert_eq!((tokens[0], tokens[2]), (1, 1), "they never lost theirs");
    assert!(tokens[1] > 2, "it was taken again when it was free");
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_given_up_while_the_lease_is_ours() {
    let (store, destination) = (MemoryStore::with_events(&[]), Destination::default());
    let worker = Worker::start_with(&store, &destination, "w1", settings());
    tokio::time::sleep(Duration::from_secs(11)).await;
    let last_renewed = Instant::now() - Duration::from_secs(1);
    store.look(|state| state.renewals_hang = true);
    until("the lease is given up", || {
        worker.board.sinks()[0].1.state == outbox_runtime::board::State::Waiting
    })
    .await;
    let held = last_renewed.elapsed();
    assert!(held >= Duration::from_secs(26) && held < Duration::from_secs(30));
    store.look(|state| state.renewals_hang = false);
    worker.stopped().await;
}
