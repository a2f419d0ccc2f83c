//! Events that a destination will not take.

use std::time::Duration;

use outbox::{Position, Stage};
use outbox_runtime::settings::OnPoison;
use outbox_sinks::{Delivery, Refusal, SinkError, Verdict};
use tokio::time::Instant;

use crate::support::{Destination, FIVE, MemoryStore, Worker, cursor_at, settings, until};

fn dead(store: &MemoryStore) -> Vec<u64> {
    let position = |dead: &outbox::DeadLetter| dead.event.position().txid.0;
    store.look(|state| state.dead_letters.iter().map(position).collect())
}

#[tokio::test(start_paused = true)]
async fn a_poison_event_is_dead_lettered_and_its_neighbours_are_delivered_in_order() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.rule(|batch| {
        let bad = batch.iter().any(|event| event.position().txid.0 == 2);
        if bad {
            Err(SinkError::failed("no idea"))
        } else {
            Ok(Delivery::All)
        }
    });
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(dead(&store), [2]);
    let letter = store.look(|state| state.dead_letters[0].clone());
    assert_eq!((letter.code.as_str(), letter.attempts), ("FAILED", 6));
    let mut expected = vec![vec![1, 2, 3], vec![1, 2, 3], vec![1], vec![2, 3]];
    // Alone five times, then its neighbour, then once more.
    expected.extend(vec![vec![2]; 5]);
    expected.extend([vec![3], vec![2], vec![4, 5]]);
    assert_eq!(destination.deliveries(), expected);
    assert_eq!(destination.apart(), [[3]], "ahead of its turn");
}

#[tokio::test(start_paused = true)]
async fn an_undeliverable_event_goes_at_once() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.answer(|_| {
        let large = Verdict::Undeliverable(Refusal::new("TOO_LARGE", "2 MB"));
        let taken = Verdict::Delivered;
        Ok(Delivery::Each(vec![taken.clone(), large, taken]))
    });
    let began = Instant::now();
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    worker.stopped().await;
    assert_eq!(dead(&store), [2]);
    assert_eq!(destination.deliveries(), [vec![1, 2, 3], vec![4, 5]]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_refuses_everything_alike_blames_nobody_however_long_it_lasts() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.refuse(&[1, 2, 3, 4, 5]);
    let worker = Worker::start(&store, &destination, "w1");
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert_eq!(dead(&store), [0; 0]);
    let made = destination.deliveries().len();
    assert!(made < 2_000, "{made} deliveries in a day: it backs off");
    destination.mend();
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(dead(&store), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_a_neighbour_there_is_no_dead_letter() {
    let (store, destination) = (MemoryStore::with_events(&FIVE[..1]), Destination::default());
    destination.refuse(&[1]);
    let worker = Worker::start(&store, &destination, "w1");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(dead(&store), [0; 0]);
    let attempts = store.look(|state| state.cursor.suspect.as_ref().map(|it| it.attempts));
    assert!(attempts.is_some_and(|attempts| attempts > 5));
    store.publish("a.neighbour");
    until("the cursor is at the end", || cursor_at(&store, 2)).await;
    worker.stopped().await;
    assert_eq!(dead(&store), [1]);
}

#[tokio::test(start_paused = true)]
async fn attempts_survive_a_restart() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.refuse(&[1]);
    let worker = Worker::start(&store, &destination, "w1");
    let attempts = || store.look(|state| state.cursor.suspect.as_ref().map_or(0, |it| it.attempts));
    until("it was refused alone three times", || attempts() == 3).await;
    worker.stopped().await;
    assert_eq!(attempts(), 3, "a stop is no attempt");
    let worker = Worker::start(&store, &destination, "w2");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(dead(&store), [1]);
    let alone = |delivery: &&Vec<u64>| **delivery == [1];
    let made = destination.deliveries().iter().filter(alone).count();
    assert_eq!(made, 6, "five attempts and the last one, over both workers");
}

#[tokio::test(start_paused = true)]
async fn a_successor_of_the_same_key_is_written_down_before_it_is_sent() {
    let store = MemoryStore::with_subject(&["s/1", "s/1"]);
    let destination = Destination::default();
    destination.answer(|_| Err(SinkError::failed("no idea")));
    destination.rule(|batch| {
        if batch.iter().any(|event| event.position().txid.0 == 1) {
            Err(SinkError::failed("no idea"))
        } else {
            Ok(Delivery::All)
        }
    });
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 2)).await;
    worker.stopped().await;
    assert_eq!(dead(&store), [1]);
    let marks = store.look(|state| state.marks.clone());
    let stages: Vec<_> = marks
        .iter()
        .map(|mark| (mark.end, mark.suspect.as_ref().map(|it| it.stage)))
        .collect();
    let second = Position::new(2, 1);
    assert_eq!(stages, [(second, Some(Stage::Probing(second)))]);
    let delivered = destination.deliveries();
    assert_eq!(
        delivered.last(),
        Some(&vec![2]),
        "and nothing comes after it"
    );
}

#[tokio::test(start_paused = true)]
async fn halting_pauses_at_the_first_one_and_a_resume_tries_it_again() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.refuse(&[2]);
    let mut sink = settings();
    sink.poison.on_poison = OnPoison::Halt;
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    until("it pauses", || {
        store.look(|state| state.cursor.paused.is_some())
    })
    .await;
    let before = destination.deliveries().len();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(destination.deliveries().len(), before, "paused is paused");
    assert!(
        cursor_at(&store, 1) || store.look(|state| state.cursor.position < Position::new(2, 1))
    );
    let reason = store.look(|state| state.cursor.paused.clone().unwrap());
    assert!(
        reason.contains("halt") && reason.contains("2.1"),
        "{reason}"
    );
    destination.mend();
    store.look(|state| state.order(|state| state.cursor.paused = None));
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    worker.stopped().await;
    assert_eq!(dead(&store), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_fuse_blows_before_one_dead_letter_too_many() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.rule(|batch| {
        let never = Verdict::Undeliverable(Refusal::new("ILLEGAL", "a bad template"));
        Ok(Delivery::Each(vec![never; batch.len()]))
    });
    let mut sink = settings();
    sink.poison.max_dead_letters = 2;
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    until("it pauses", || {
        store.look(|state| state.cursor.paused.is_some())
    })
    .await;
    worker.stopped().await;
    assert_eq!(dead(&store), [1, 2]);
    assert!(store.look(|state| state.cursor.position < Position::new(3, 1)));
}

#[tokio::test(start_paused = true)]
async fn two_bad_events_in_a_batch_hold_the_sink_no_longer_than_one_by_one() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.refuse(&[1, 3]);
    let began = Instant::now();
    let worker = Worker::start(&store, &destination, "w1");
    until("the cursor is at the end", || cursor_at(&store, 5)).await;
    assert!(began.elapsed() < Duration::from_secs(120));
    worker.stopped().await;
    assert_eq!(dead(&store), [1, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_row_of_bad_events_is_worked_off_one_by_one_at_a_batch_size_of_one() {
    let types = ["a.bad"; 20];
    let (store, destination) = (MemoryStore::with_events(&types), Destination::default());
    destination.refuse(&[2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let mut sink = settings();
    sink.batch.max_events = Some(1);
    let began = Instant::now();
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    until("the cursor is at the end", || cursor_at(&store, 20)).await;
    assert!(began.elapsed() < Duration::from_secs(3_600));
    worker.stopped().await;
    assert_eq!(dead(&store), [2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_resume_goes_on_with_the_dead_letters_that_there_was_no_room_for() {
    let (store, destination) = (MemoryStore::with_events(&FIVE), Destination::default());
    destination.rule(|batch| {
        let verdict = |txid: u64| match txid {
            1 => Verdict::Unconfirmed,
            _ => Verdict::Undeliverable(Refusal::new("ILLEGAL", "a bad template")),
        };
        let verdicts = batch.iter().map(|event| verdict(event.position().txid.0));
        Ok(Delivery::Each(verdicts.collect()))
    });
    let mut sink = settings();
    sink.batch.max_events = Some(5);
    sink.poison.max_dead_letters = 3;
    let worker = Worker::start_with(&store, &destination, "w1", sink);
    until("it pauses", || {
        store.look(|state| state.cursor.paused.is_some())
    })
    .await;
    assert_eq!(dead(&store), [2, 3, 4]);
    // The count begins anew, as a resume has it.
    let resume = |state: &mut crate::support::State| {
        state.cursor.paused = None;
        state.resumed_with = state.dead_letters.len();
    };
    store.look(|state| state.order(resume));
    until("the last one goes as well", || dead(&store).len() == 4).await;
    assert_eq!(dead(&store), [2, 3, 4, 5]);
    worker.stopped().await;
}
