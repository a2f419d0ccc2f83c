//! Dead letters that are delivered again.

use std::time::Duration;

use outbox::{Event, Position, Replay, ReplayOutcome};
use outbox_sinks::{Delivery, Refusal, SinkError, Verdict};

use crate::support::{Destination, FIVE, MemoryStore, State, Worker, cursor_at, until};

fn replay(state: &mut State, ids: impl Iterator<Item = i64>) {
    let replays = ids.map(|id| {
        let position = Position::new(100 + u64::try_from(id).unwrap(), 1);
        Replay {
            id,
            event: Event::new(position, "a.dead", "{}").as_replay(1),
        }
    });
    let replays: Vec<_> = replays.collect();
    state.order(|state| {
        state.ordered.extend(replays.iter().cloned());
        state.replaying.extend(replays);
    });
}

#[tokio::test(start_paused = true)]
async fn replays_are_delivered_apart_and_never_touch_the_cursor() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    store.look(|state| replay(state, 1..4));
    until("all of them are told of", || {
        store.look(|state| state.replayed.len() == 3)
    })
    .await;
    assert!(cursor_at(&store, 5));
    store.publish("a.six");
    until("live events go on", || cursor_at(&store, 6)).await;
    worker.stopped().await;
    assert_eq!(destination.apart(), [[101, 102, 103]]);
    let delivered = (2, ReplayOutcome::Delivered);
    assert!(store.look(|state| state.replayed.contains(&delivered)));
}

#[tokio::test(start_paused = true)]
async fn a_backlog_and_replays_take_turns() {
    let types = ["a.live"; 300];
    let (store, destination) = (MemoryStore::with_events(&types), Destination::default());
    store.look(|state| state.slow_claim = Duration::from_millis(1));
    destination.take(Duration::from_millis(10));
    store.look(|state| replay(state, 1..10));
    let worker = Worker::start(&store, &destination, "w1");
    until("the replays are done", || {
        store.look(|state| state.replayed.len() == 9)
    })
    .await;
    let live = destination.deliveries().len() - destination.apart().len();
    assert!((2..=4).contains(&live), "{live} live batches in between");
    until("the cursor is at the end", || cursor_at(&store, 300)).await;
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_is_refused_stays_dead_and_an_outage_delays_no_live_event() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.rule(|batch| match (batch.is_apart(), batch.len()) {
        (true, 1) if batch.first().position().txid.0 == 102 => {
            Err(SinkError::failed("this one again"))
        }
        (true, 1) => Ok(Delivery::All),
        (true, _) => Err(SinkError::failed("no idea")),
        (false, _) => Ok(Delivery::All),
    });
    let worker = Worker::start(&store, &destination, "w1");
    store.look(|state| replay(state, 1..4));
    until("all of them are told of", || {
        store.look(|state| state.replayed.len() == 3)
    })
    .await;
    let refused = |(id, outcome): &(i64, ReplayOutcome)| {
        matches!(outcome, ReplayOutcome::Refused { .. }).then_some(*id)
    };
    let dead: Vec<_> = store.look(|state| state.replayed.iter().filter_map(refused).collect());
    assert_eq!(dead, [2], "they were tried one by one");

    destination.rule(|batch| {
        if batch.is_apart() {
            Err(SinkError::unavailable("connect"))
        } else {
            Ok(Delivery::All)
        }
    });
    store.look(|state| replay(state, 7..8));
    tokio::time::sleep(Duration::from_secs(600)).await;
    store.publish("a.six");
    until("live events go on", || cursor_at(&store, 6)).await;
    let made = destination.apart().len();
    assert!(made < 30, "{made} deliveries: replays back off");
    destination.mend();
    until("it is told of at last", || {
        store.look(|state| state.replayed.len() == 4)
    })
    .await;
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn each_replay_gets_its_own_verdict() {
    let (store, destination) = (MemoryStore::with_events(&[]), Destination::default());
    destination.answer(|_| {
        let refused = Verdict::Refused(Refusal::new("NO", "never"));
        let verdicts = [Verdict::Delivered, refused, Verdict::Unconfirmed];
        Ok(Delivery::Each(verdicts.to_vec()))
    });
    store.look(|state| replay(state, 1..4));
    let worker = Worker::start(&store, &destination, "w1");
    until("all of them are told of", || {
        store.look(|state| state.replayed.len() == 3)
    })
    .await;
    worker.stopped().await;
    assert_eq!(destination.apart(), [vec![101, 102, 103], vec![103]]);
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_kills_the_process_is_not_tried_again() {
    let (store, destination) = (MemoryStore::with_events(&[]), Destination::default());
    destination.take(Duration::from_secs(5));
    store.look(|state| replay(state, 1..3));
    for process in ["w1", "w2"] {
        let before = destination.deliveries().len();
        let worker = Worker::start(&store, &destination, process);
        until("a replay is in hand", || {
            destination.deliveries().len() > before
        })
        .await;
        worker.killed().await;
    }
    let outcomes = store.look(|state| state.replayed.clone());
    assert!(
        matches!(&outcomes[..], [(1, ReplayOutcome::Refused { code, .. })] if code == "CRASHED"),
        "{outcomes:?}"
    );
    assert_eq!(destination.apart(), [vec![101, 102], vec![101]]);
}

#[tokio::test(start_paused = true)]
async fn replays_go_on_while_a_live_batch_is_held_up() {
    let (store, destination) = (MemoryStore::with_events(&FIVE[..1]), Destination::default());
    destination.refuse(&[1]);
    let worker = Worker::start(&store, &destination, "w1");
    tokio::time::sleep(Duration::from_secs(600)).await;
    store.look(|state| replay(state, 1..4));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.look(|state| state.replayed.len()), 3);
    worker.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn replays_that_are_not_confirmed_back_off() {
    let (store, destination) = (MemoryStore::with_events(&[]), Destination::default());
    destination.rule(|batch| {
        let unknown = Verdict::Unconfirmed;
        Ok(Delivery::Each(vec![unknown; batch.len()]))
    });
    store.look(|state| replay(state, 1..4));
    let worker = Worker::start(&store, &destination, "w1");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let made = destination.deliveries().len();
    assert!(made < 20, "{made} deliveries");
    worker.stopped().await;
}
