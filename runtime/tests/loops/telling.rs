//! What the loops tell on the board is what happened.

use std::time::Duration;

use outbox::Position;
use outbox_runtime::board::{OfOutcome, OfSink, Outcome, PageView, State};
use outbox_sinks::{Batch, Delivery, Refusal, SinkError, Verdict};

use crate::support::{Destination, FIVE, MemoryStore, Worker, cursor_at, until};

/// What the only sink's loop is doing.
fn page(worker: &Worker) -> PageView {
    let (_, page) = worker.board.sinks().pop().unwrap();
    page
}

fn of_sink() -> OfSink {
    let sink = "test".to_owned();
    OfSink { sink }
}

fn delivered(worker: &Worker) -> usize {
    let counters = worker.board.counters();
    let counted = counters.delivered_events.get_or_create(&of_sink()).get();
    usize::try_from(counted).unwrap()
}

fn deliveries(worker: &Worker) -> [u64; 6] {
    Outcome::ALL.map(|outcome| {
        let sink = "test".to_owned();
        let label = OfOutcome { sink, outcome };
        worker
            .board
            .counters()
            .deliveries
            .get_or_create(&label)
            .get()
    })
}

fn refuse_first(batch: &Batch) -> Result<Delivery, SinkError> {
    let mut verdicts = vec![Verdict::Delivered; batch.len()];
    verdicts[0] = Verdict::Refused(Refusal::new("NO", "not now"));
    Ok(Delivery::from_verdicts(verdicts))
}

#[tokio::test(start_paused = true)]
async fn counters_of_an_outage_are_what_the_receiver_has_counted() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    for _ in 0..3 {
        destination.answer(|_| Err(SinkError::unavailable("connect")));
    }
    destination.answer(refuse_first);
    destination.answer(|_| Err(SinkError::misconfigured("no such topic", "create it")));
    let worker = Worker::start(&store, &destination, "w1");
    until("the third attempt is noted", || {
        store.look(|state| state.attempts() == 3)
    })
    .await;
    assert_eq!((delivered(&worker), destination.taken().len()), (0, 0));
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    // 2 and 3 were taken with the refused 1, and are not sent again.
    assert_eq!(destination.taken(), [2, 3, 1, 4, 5]);
    assert_eq!(delivered(&worker), 5);
    // Delivered, partly, unavailable, failed, misconfigured, fenced.
    let made = deliveries(&worker);
    assert_eq!(made, [made[0], 1, 3, 0, 1, 0]);
    let all = usize::try_from(made.iter().sum::<u64>()).unwrap();
    assert_eq!(all, destination.deliveries().len());
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_delivered_again_is_counted_again() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    store.look(|state| state.order(|state| state.seek = Some(Position::new(3, 1))));
    until("the tail is delivered again", || delivered(&worker) == 7).await;
    assert_eq!(destination.taken(), [1, 2, 3, 4, 5, 4, 5]);
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn dead_letters_and_saves_count_once_they_are_written() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.rule(|batch| {
        let verdict = |txid| match txid {
            2 => Verdict::Undeliverable(Refusal::new("NO", "never")),
            _ => Verdict::Delivered,
        };
        let verdicts = batch.iter().map(|event| verdict(event.position().txid.0));
        Ok(Delivery::from_verdicts(verdicts.collect()))
    });
    destination.take(Duration::from_secs(2));
    let worker = Worker::start(&store, &destination, "w1");
    let written = || {
        let counters = worker.board.counters();
        let dead = counters.dead_letters.get_or_create(&of_sink()).get();
        (dead, counters.cursor_saves.get_or_create(&of_sink()).get())
    };
    until("a delivery has begun", || {
        !destination.deliveries().is_empty()
    })
    .await;
    store.look(|state| state.down = true);
    until("it is acknowledged", || delivered(&worker) == 2).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(written(), (0, 0), "the database is away");
    assert!(!worker.board.database().reachable);
    store.look(|state| state.down = false);
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    let (dead, saves) = store.look(|state| (state.dead_letters.len(), state.saves.len()));
    let dead = u64::try_from(dead).unwrap();
    until("all is told", || {
        written() == (dead, u64::try_from(saves).unwrap())
    })
    .await;
    assert_eq!(
        (dead, page(&worker).position),
        (1, Some(Position::new(5, 1)))
    );
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_loop_tells_each_of_its_states() {
    let (store, destination) = (MemoryStore::with_events(&[]), Destination::default());
    let worker = Worker::start(&store, &destination, "w1");
    let is = |state: State| page(&worker).state == state;
    until("it waits for events", || is(State::Idle)).await;
    let second = Worker::start(&store, &destination, "w2");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(page(&second).state, State::Waiting);
    second.stopped().await;

    destination.take(Duration::from_secs(1));
    store.publish("a.one");
    until("it delivers", || is(State::Delivering)).await;
    until("it waits for events", || is(State::Idle)).await;

    for _ in 0..3 {
        destination.answer(|_| Err(SinkError::unavailable("connect")));
    }
    store.publish("a.two");
    until("it backs off", || is(State::BackingOff)).await;
    until("the third attempt failed", || page(&worker).attempts == 3).await;
    assert_eq!(page(&worker).last_error_kind, Some("unavailable"));
    until("it waits for events", || is(State::Idle)).await;
    let after = page(&worker);
    assert_eq!((after.attempts, after.last_error_kind), (0, None));

    let pause = Some("rebuild".to_owned());
    store.look(|state| state.order(|state| state.cursor.paused = pause));
    until("it is paused", || is(State::Paused)).await;
    assert_eq!(worker.board.not_ready(), []);
    store.look(|state| state.order(|state| state.cursor.paused = None));
    until("it waits for events", || is(State::Idle)).await;

    worker.stop.cancel();
    until("it has stopped", || is(State::Stopped)).await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_a_person_must_decide_about_is_told_as_stopped_without_a_lease() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    store.look(|state| state.cursor.position = Position::new(77, 1));
    let worker = Worker::start(&store, &destination, "w1");
    until("it has stopped", || page(&worker).state == State::Stopped).await;
    let told = page(&worker);
    assert!(!told.state.holds_lease());
    assert_eq!(told.last_error_kind, Some("misconfigured"));
    worker.stopped().await;
}
