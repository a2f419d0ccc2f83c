//! Destinations that store their own position with the data.

use std::time::Duration;

use outbox::{Filter, Flow, Position};
use outbox_sinks::Session;

use crate::support::{FIVE, Ledger, Loss, MemoryStore, State, Worker, cursor_at, settings, until};

fn last_error(store: &MemoryStore) -> String {
    store.look(|state| state.last_error.clone().unwrap_or_default())
}

/// Somebody has stored that the ledger has everything up to here.
fn stored(ledger: &Ledger, flow: Flow, position: Position) {
    let session = Session::new("test", 1, Duration::from_secs(1)).in_flow(flow);
    ledger.look(|table| table.progress = Some(session.progress(position)));
}

fn seek(state: &mut State, to: Position) {
    state.seek = Some(to);
}

/// The ledger is restored from a time at which it had the first row alone.
fn restore(ledger: &Ledger, flow: Flow) {
    ledger.look(|table| table.rows.truncate(1));
    stored(ledger, flow, Position::new(1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_answer_was_lost_is_not_stored_twice() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE), Ledger::default());
    ledger.look(|table| table.losses.extend([Loss::Answer, Loss::Answer]));
    let worker = Worker::start(&store, &ledger, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(ledger.look(|table| table.rows.clone()), [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn the_cursor_follows_a_destination_that_is_ahead_after_a_death() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE), Ledger::default());
    ledger.look(|table| table.losses.push_back(Loss::Hangs));
    let worker = Worker::start(&store, &ledger, "w1");
    until("a batch is stored", || {
        ledger.look(|table| table.rows.len() == 3)
    })
    .await;
    worker.killed().await;
    assert!(!cursor_at(&store, 3), "the cursor knows nothing of it");
    let worker = Worker::start(&store, &ledger, "w2");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(ledger.look(|table| table.rows.clone()), [1, 2, 3, 4, 5]);
    let deliveries = ledger.look(|table| table.deliveries);
    assert_eq!(deliveries, 2, "what is there is not sent again");
    assert_eq!(ledger.look(|table| table.opened), 2, "the sink is kept");
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_there_was_flushed_here_first() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE), Ledger::default());
    let worker = Worker::start(&store, &ledger, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    let marked = store.look(|state| state.marks.iter().map(|mark| mark.end).collect::<Vec<_>>());
    assert_eq!(
        marked,
        [Position::new(3, 1), Position::new(5, 1)],
        "once a batch"
    );
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_has_lost_data_gets_nothing_until_an_operator_decides() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE[..3]), Ledger::default());
    let worker = Worker::start(&store, &ledger, "w1");
    until("the cursor is at the end", || cursor_at(&store, 3)).await;
    worker.stopped().await;
    ledger.look(|table| {
        table.rows.truncate(1);
        table.progress = None;
    });
    store.publish("a.b");
    let worker = Worker::start(&store, &ledger, "w2");
    until("it says why", || last_error(&store).contains("lost data")).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        ledger.look(|table| table.rows.clone()),
        [1],
        "nothing is sent"
    );
    assert!(cursor_at(&store, 3));

    store.look(|state| state.order(|state| seek(state, Position::new(1, 1))));
    until("the cursor is at the end", || cursor_at(&store, 4)).await;
    worker.stopped().await;
    assert_eq!(ledger.look(|table| table.rows.clone()), [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn an_operator_can_have_everything_stored_again() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE[..3]), Ledger::default());
    let worker = Worker::start(&store, &ledger, "w1");
    until("the cursor is at the end", || cursor_at(&store, 3)).await;
    store.look(|state| state.order(|state| seek(state, Position::BEGINNING)));
    until("all is stored again", || {
        ledger.look(|table| table.rows.len() == 6)
    })
    .await;
    until("the cursor is at the end", || cursor_at(&store, 3)).await;
    worker.stopped().await;
    assert_eq!(ledger.look(|table| table.rows.clone()), [1, 2, 3, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_position_of_another_outbox_is_never_taken_for_ours() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE), Ledger::default());
    stored(&ledger, Flow::new("elsewhere", 0), Position::new(4, 1));
    let worker = Worker::start(&store, &ledger, "w1");
    until("it says why", || {
        last_error(&store).contains("another outbox")
    })
    .await;
    assert!(ledger.look(|table| table.rows.is_empty()));
    assert_eq!(
        store.look(|state| state.cursor.position),
        Position::BEGINNING
    );
    worker.stopped().await;
}

/// The database was put back to an older state, or has lost its last commits: their positions
/// are given out again, to other events.
#[tokio::test(start_paused = true)]
async fn a_position_that_was_never_sent_from_here_is_no_reason_to_skip() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE), Ledger::default());
    stored(&ledger, Flow::default(), Position::new(4, 1));
    let worker = Worker::start(&store, &ledger, "w1");
    until("it says why", || last_error(&store).contains("ever sent")).await;
    for _ in 0..3 {
        store.publish("a.b");
        tokio::time::sleep(Duration::from_secs(120)).await;
    }
    assert!(ledger.look(|table| table.rows.is_empty()));
    assert_eq!(
        store.look(|state| state.cursor.position),
        Position::BEGINNING
    );
    assert!(
        store.look(|state| state.marks.is_empty()),
        "no mark vouches for it"
    );

    store.look(|state| state.order(|state| seek(state, Position::BEGINNING)));
    until("the cursor is at the end", || cursor_at(&store, 8)).await;
    worker.stopped().await;
    let all: Vec<u64> = (1..=8).collect();
    assert_eq!(ledger.look(|table| table.rows.clone()), all);
}

#[tokio::test(start_paused = true)]
async fn events_that_were_filtered_out_or_dead_lettered_are_not_missed_there() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE), Ledger::default());
    ledger.look(|table| table.undeliverable = vec![2, 5]);
    let mut sink = settings();
    sink.filter = Filter {
        types: vec!["a.*".parse().unwrap()],
        tenants: Vec::new(),
    };
    let worker = Worker::start_with(&store, &ledger, "w1", sink.clone());
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(store.look(|state| state.dead_letters.len()), 2);
    store.publish("a.six");
    let worker = Worker::start_with(&store, &ledger, "w2", sink);
    until("the cursor is at the end", || cursor_at(&store, 6)).await;
    worker.stopped().await;
    assert_eq!(ledger.look(|table| table.rows.clone()), [1, 4, 6]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_lease_is_gone_is_fenced_off_by_the_destination() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE[..1]), Ledger::default());
    let worker = Worker::start(&store, &ledger, "w1");
    until("the cursor is at the end", || cursor_at(&store, 1)).await;
    // Somebody with a newer lease writes there.
    let newer = Session::new("test", 7, Duration::from_secs(1));
    ledger.look(|table| table.progress = Some(newer.progress(Position::new(1, 1))));
    store.publish("a.two");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(ledger.look(|table| table.rows.clone()), [1]);
    let released = store.look(|state| state.leases.values().all(|(_, expires)| expires.is_none()));
    assert!(released, "the lease is given up");
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_is_restored_while_its_sink_is_open_is_found_behind() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE[..3]), Ledger::default());
    let worker = Worker::start(&store, &ledger, "w1");
    until("the cursor is at the end", || cursor_at(&store, 3)).await;
    restore(&ledger, Flow::default());
    ledger.look(|table| table.losses.push_back(Loss::Connection));
    store.publish("a.b");
    until("it says why", || last_error(&store).contains("lost data")).await;
    worker.stopped().await;
    assert_eq!(ledger.look(|table| table.rows.clone()), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_opened_anew_is_compared_with_where_the_cursor_has_come_to() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE[..3]), Ledger::default());
    let worker = Worker::start(&store, &ledger, "w1");
    until("the cursor is at the end", || cursor_at(&store, 3)).await;
    restore(&ledger, Flow::default());
    ledger.look(|table| table.losses.push_back(Loss::Connection));
    store.publish("a.b");
    until("it is opened anew", || {
        ledger.look(|table| table.opened == 2)
    })
    .await;
    until("it says why", || last_error(&store).contains("lost data")).await;
    let opened = ledger.look(|table| table.opened);
    assert_eq!(
        opened, 2,
        "the cursor is not moved back, which would fence the loop off"
    );
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_is_restored_to_before_a_seek_is_found_behind() {
    let (store, ledger) = (MemoryStore::with_events(&FIVE[..3]), Ledger::default());
    let worker = Worker::start(&store, &ledger, "w1");
    until("the cursor is at the end", || cursor_at(&store, 3)).await;
    store.look(|state| state.order(|state| seek(state, Position::new(1, 1))));
    until("it is stored again", || {
        ledger.look(|table| table.rows.len() == 5) && cursor_at(&store, 3)
    })
    .await;
    worker.stopped().await;
    restore(&ledger, Flow::default());
    store.publish("a.b");
    let worker = Worker::start(&store, &ledger, "w2");
    until("it says why", || last_error(&store).contains("lost data")).await;
    worker.stopped().await;
    assert_eq!(ledger.look(|table| table.rows.clone()), [1]);
}
