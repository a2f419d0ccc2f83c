use std::collections::{BTreeMap, BTreeSet};

use outbox::Event;
use outbox_sinks::{Delivery, ErrorKind, Refusal, from_fn};
use proptest::prelude::*;

use super::*;

const ATTEMPTS: u32 = 5;

fn event(seq: i64, key: usize) -> Event {
    let payload = format!(r#"{{"id":"evt_{seq}","type":"a.b","subject":"key/{key}"}}"#);
    Event::new(at(seq), "a.b", payload)
}

const fn at(seq: i64) -> Position {
    Position::new(1, seq)
}

/// Events 1, 2, 3 … of these keys.
fn batch(keys: &[usize]) -> Batch {
    let events = (1..).zip(keys).map(|(seq, key)| event(seq, *key));
    Batch::new(events.collect::<Vec<_>>()).unwrap()
}

fn refusal() -> Refusal {
    Refusal::new("NO", "no")
}

/// What a destination does with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fine,
    /// Refused by itself, for ever.
    Refused,
    /// The whole delivery fails.
    Fails,
    Undeliverable,
}

/// A destination with fixed fates, and what happened to it.
struct World {
    fates: Vec<Fate>,
    deliveries: Vec<Vec<i64>>,
    delivered: BTreeSet<i64>,
    dead: BTreeMap<i64, DeadLetter>,
    cursor: Position,
    pauses: usize,
}

impl World {
    fn new(fates: &[Fate]) -> Self {
        Self {
            fates: fates.to_vec(),
            deliveries: Vec::new(),
            delivered: BTreeSet::new(),
            dead: BTreeMap::new(),
            cursor: at(0),
            pauses: 0,
        }
    }

    fn fate(&self, event: &Event) -> Fate {
        self.fates[usize::try_from(event.position().seq).unwrap() - 1]
    }

    fn attempt(&mut self, batch: &Batch) -> Attempt {
        self.deliveries
            .push(batch.iter().map(|event| event.position().seq).collect());
        if batch.iter().any(|event| self.fate(event) == Fate::Fails) {
            return Err(SinkError::failed("no idea"));
        }
        let verdicts = batch.iter().map(|event| match self.fate(event) {
            Fate::Refused => Verdict::Refused(refusal()),
            Fate::Undeliverable => Verdict::Undeliverable(refusal()),
            Fate::Fine | Fate::Fails => Verdict::Delivered,
        });
        let verdicts: Vec<_> = verdicts.collect();
        for (event, verdict) in batch.iter().zip(&verdicts) {
            if *verdict == Verdict::Delivered {
                self.delivered.insert(event.position().seq);
            }
        }
        Ok(Delivery::from_verdicts(verdicts))
    }

    fn note(&mut self, step: Step) {
        for dead in step.dead_letters {
            self.dead.insert(dead.event.position().seq, dead);
        }
        if let Some(up_to) = step.up_to {
            assert!(up_to > self.cursor, "OB-2");
            self.cursor = up_to;
        }
        for seq in 1..=self
            .cursor
            .seq
            .min(i64::try_from(self.fates.len()).unwrap())
        {
            let settled = self.delivered.contains(&seq) || self.dead.contains_key(&seq);
            assert!(settled, "OB-1: {seq} was passed");
        }
        match step.next {
            Next::Go => {}
            Next::BackOff(_) => self.pauses += 1,
            Next::GiveUp(error) => panic!("nobody fenced us: {error:?}"),
            Next::Halt(reason) => panic!("{reason}"),
        }
    }

    /// Works a batch off, for at most so many deliveries.
    fn work_off(&mut self, work: &mut Work<'_>, limit: usize) -> bool {
        self.work_off_reading(work, limit, |_, _| false)
    }

    /// The same, reading `more` as the loop does: it returns whether there was any.
    fn work_off_reading(
        &mut self,
        work: &mut Work<'_>,
        limit: usize,
        mut more: impl FnMut(&mut Self, &mut Work<'_>) -> bool,
    ) -> bool {
        while self.deliveries.len() < limit {
            while work.wants_more() && more(self, work) {}
            match work.todo() {
                Todo::Deliver(task) => {
                    let attempt = self.attempt(&task.batch);
                    let step = work.after(attempt);
                    self.note(step);
                }
                Todo::Settle(step) => self.note(step),
                Todo::AwaitNeighbour => return false,
                Todo::Nothing => return true,
            }
        }
        false
    }
}

/// Reads one more event that is fine, of a key of its own.
fn one_more(world: &mut World, work: &mut Work<'_>) -> bool {
    world.fates.push(Fate::Fine);
    let seq = world.fates.len();
    let more = event(i64::try_from(seq).unwrap(), seq + 1_000);
    work.extend(Batch::new(vec![more]), at(i64::try_from(seq).unwrap()));
    true
}

/// What is delivered next, pauses left out.
fn next_task(work: &mut Work<'_>) -> Task {
    loop {
        match work.todo() {
            Todo::Deliver(task) => return task,
            Todo::Settle(step) => {
                assert!(matches!(step.next, Next::BackOff(_)), "{step:?}");
            }
            other @ (Todo::AwaitNeighbour | Todo::Nothing) => panic!("{other:?}"),
        }
    }
}

fn next_seq(work: &mut Work<'_>) -> i64 {
    next_task(work).batch.first().position().seq
}

fn rules(connector: &dyn Connector) -> Rules<'_> {
    Rules {
        poison_attempts: ATTEMPTS,
        frozen: false,
        probe_successors: true,
        connector,
    }
}

fn never() -> impl Connector {
    from_fn(|_| async { Ok(Delivery::All) })
}

fn log2(n: usize) -> usize {
    usize::try_from(n.next_power_of_two().trailing_zeros()).unwrap()
}

#[test]
fn a_poison_event_among_ten_thousand_is_found_within_the_bound() {
    let n = 10_000;
    for bad in [0, 1, 4_999, 5_000, 9_998] {
        for fate in [Fate::Fails, Fate::Refused] {
            let mut fates = vec![Fate::Fine; n];
            fates[bad] = fate;
            let keys: Vec<_> = (0..n).collect();
            let (mut world, connector) = (World::new(&fates), never());
            let mut work = Work::new(
                rules(&connector),
                batch(&keys),
                at(99_999),
                Before::default(),
            );
            assert!(world.work_off(&mut work, 1_000));
            let dead: Vec<_> = world.dead.keys().copied().collect();
            assert_eq!(dead, [i64::try_from(bad).unwrap() + 1]);
            // One more for the failure before bisecting, and two that make sure: the
            // neighbour, and the last attempt after it.
            let bound = 1 + 2 * log2(n) + usize::try_from(ATTEMPTS).unwrap() + 3;
            assert!(
                world.deliveries.len() <= bound,
                "{}",
                world.deliveries.len()
            );
            assert_eq!(world.cursor, at(99_999));
        }
    }
}

#[test]
fn an_event_that_is_refused_is_tried_alone_and_the_rest_waits() {
    let (mut world, connector) = (
        World::new(&[Fate::Fine, Fate::Refused, Fate::Refused, Fate::Fine]),
        never(),
    );
    let mut work = Work::new(
        rules(&connector),
        batch(&[1, 2, 3, 4]),
        at(4),
        Before::default(),
    );
    world.work_off(&mut work, 6);
    let alone = vec![2];
    let mut expected = vec![vec![1, 2, 3, 4]];
    expected.extend(vec![alone; 5]);
    assert_eq!(world.deliveries, expected);
    assert_eq!(world.cursor, at(1));
    world.work_off(&mut work, 7);
    // Only now is another one tried: not the one that was refused as well.
    assert_eq!(world.deliveries[6], [4]);
}

#[test]
fn a_neighbour_of_another_key_is_tried_and_then_the_suspect_once_more() {
    let fates = [Fate::Fine, Fate::Fine, Fate::Refused];
    let (mut world, connector) = (World::new(&fates), never());
    let mut work = Work::new(
        rules(&connector),
        batch(&[1, 2, 1]),
        at(3),
        Before::default(),
    );
    // It was the last one: nothing is left to compare with.
    assert!(!world.work_off(&mut work, 50));
    assert!(world.dead.is_empty());
    let more = vec![event(4, 1), event(5, 3)];
    work.extend(Batch::new(more), at(5));
    world.fates.extend([Fate::Fine, Fate::Fine]);
    let before = world.deliveries.len();
    assert!(world.work_off(&mut work, 200));
    let after = &world.deliveries[before..];
    // The successor has the suspect's own key: the one after it is tried.
    assert_eq!(after, [vec![5], vec![3], vec![4]]);
    assert_eq!(world.dead[&3].code, "NO");
    assert_eq!(world.cursor, at(5));
}

#[test]
fn the_cursor_passes_with_an_event_what_was_settled_ahead_behind_it() {
    let fates = [Fate::Refused, Fate::Fine, Fate::Refused, Fate::Fine];
    let (mut world, connector) = (World::new(&fates), never());
    let mut work = Work::new(
        rules(&connector),
        batch(&[1, 2, 3, 4]),
        at(4),
        Before::default(),
    );
    for limit in 1..50 {
        if world.dead.is_empty() {
            world.work_off(&mut work, limit);
        }
    }
    // The next holder finds the second poison right after the cursor, and so what is
    // known about it.
    assert!(world.dead.contains_key(&1));
    assert_eq!(world.cursor, at(2));
}

#[test]
fn one_that_was_taken_behind_it_in_the_same_delivery_is_sent_again_for_want_of_others() {
    let (mut world, connector) = (World::new(&[Fate::Refused, Fate::Fine]), never());
    let mut work = Work::new(rules(&connector), batch(&[1, 1]), at(2), Before::default());
    assert!(world.work_off(&mut work, 50));
    assert_eq!(world.dead[&1].attempts, ATTEMPTS + 1);
    let mut expected = vec![vec![1, 2]];
    expected.extend(vec![vec![1]; 5]);
    expected.extend([vec![2], vec![1]]);
    assert_eq!(world.deliveries, expected);
}

#[test]
fn bad_neighbours_are_passed_over_and_no_more_is_read_than_need_be() {
    // Ten events of different keys that nobody takes, and then one that is fine.
    let mut fates = vec![Fate::Refused; 10];
    fates.push(Fate::Fine);
    let keys: Vec<_> = (0..11).collect();
    let (mut world, connector) = (World::new(&fates), never());
    let mut work = Work::new(rules(&connector), batch(&keys), at(11), Before::default());
    // The good one was taken in the first delivery, and serves as a witness for the first.
    assert!(world.work_off_reading(&mut work, 2_000, one_more));
    assert!(world.fates.len() <= 21, "one more event for each is enough");
    assert_eq!(world.dead.len(), 10);
}

#[test]
fn a_neighbour_that_can_never_be_sent_goes_at_once_and_the_next_one_is_asked() {
    let connector = never();
    let mut work = Work::new(
        rules(&connector),
        batch(&[1, 1, 2]),
        at(3),
        Before {
            suspect: Some(Suspect {
                position: at(1),
                attempts: ATTEMPTS,
                stage: Stage::Alone,
                code: "NO".to_owned(),
                error: "no".to_owned(),
            }),
            ..Before::default()
        },
    );
    let refused = || Ok(Delivery::Each(vec![Verdict::Refused(refusal())]));
    let never = || Ok(Delivery::Each(vec![Verdict::Undeliverable(refusal())]));
    assert_eq!(next_seq(&mut work), 1);
    work.after(refused());
    assert_eq!(next_seq(&mut work), 3, "another key");
    let step = work.after(never());
    assert_eq!((step.dead_letters.len(), step.up_to), (1, None));
    assert_eq!(next_seq(&mut work), 2, "only its own key is left");
    let step = work.after(never());
    assert_eq!((step.dead_letters.len(), step.up_to), (1, None));
    assert_eq!(next_seq(&mut work), 1);
}

#[test]
fn what_can_never_be_sent_does_not_hide_that_its_key_is_another_one() {
    let connector = never();
    let frozen = Rules {
        frozen: true,
        ..rules(&connector)
    };
    let before = Before {
        suspect: Some(Suspect {
            position: at(1),
            attempts: ATTEMPTS,
            stage: Stage::Alone,
            code: "NO".to_owned(),
            error: "no".to_owned(),
        }),
        ..Before::default()
    };
    let mut work = Work::new(frozen, batch(&[1, 2, 2]), at(3), before);
    assert_eq!(next_seq(&mut work), 1);
    work.after(Ok(Delivery::Each(vec![Verdict::Refused(refusal())])));
    assert_eq!(next_seq(&mut work), 2);
    // It stays in its range, so it is still there when the next one is looked for.
    work.after(Ok(Delivery::Each(vec![Verdict::Undeliverable(refusal())])));
    assert_eq!(next_seq(&mut work), 3);
    let step = work.after(Ok(Delivery::All));
    assert!(
        step.dead_letters.is_empty(),
        "the suspect is tried once more"
    );
    assert_eq!(next_seq(&mut work), 1);
}

#[test]
fn a_suspect_by_timeouts_is_never_compared_with_its_own_successor() {
    let connector = never();
    let mut work = Work::new(rules(&connector), batch(&[1, 1]), at(2), Before::default());
    let late = || Err(SinkError::failed("late").with_source(crate::decide::TimedOut));
    for _ in 0..30 {
        assert_eq!(next_seq(&mut work), 1);
        work.after(late());
    }
}

#[test]
fn one_death_in_the_last_attempt_convicts_only_what_has_killed_before() {
    let connector = never();
    let before = |code: &str| Before {
        suspect: Some(Suspect {
            position: at(1),
            attempts: ATTEMPTS,
            stage: Stage::Confirming,
            code: code.to_owned(),
            error: "no".to_owned(),
        }),
        died: true,
        in_hand: Some(at(1)),
        ..Before::default()
    };
    let mut work = Work::new(rules(&connector), batch(&[1, 2]), at(2), before("NO"));
    let Todo::Deliver(task) = work.todo() else {
        panic!("a neighbour")
    };
    assert_eq!(task.batch.first().position(), at(2));
    let mut work = Work::new(rules(&connector), batch(&[1, 2]), at(2), before("CRASHED"));
    assert!(matches!(work.todo(), Todo::Settle(step) if step.dead_letters.len() == 1));
}

#[test]
fn a_neighbour_that_kills_is_not_asked_again() {
    let connector = never();
    let mut work = Work::new(
        rules(&connector),
        batch(&[1, 2, 3]),
        at(3),
        Before {
            suspect: Some(Suspect {
                position: at(1),
                attempts: ATTEMPTS,
                stage: Stage::Comparing,
                code: "NO".to_owned(),
                error: "no".to_owned(),
            }),
            died: true,
            in_hand: Some(at(2)),
            ..Before::default()
        },
    );
    let Todo::Deliver(task) = work.todo() else {
        panic!("another neighbour")
    };
    assert_eq!(task.batch.first().position(), at(3));
}

#[test]
fn neighbours_that_kill_one_after_the_other_need_a_person() {
    let connector = never();
    let keys: Vec<_> = (0..40).collect();
    let mut suspect = Some(Suspect {
        position: at(1),
        attempts: ATTEMPTS,
        stage: Stage::Comparing,
        code: "NO".to_owned(),
        error: "no".to_owned(),
    });
    let mut in_hand = at(2);
    for death in 1.. {
        let before = Before {
            suspect: suspect.clone(),
            died: true,
            in_hand: Some(in_hand),
            ..Before::default()
        };
        let mut work = Work::new(rules(&connector), batch(&keys), at(40), before);
        match work.todo() {
            Todo::Deliver(task) => {
                assert!(task.batch.end() > in_hand, "none is asked twice");
                in_hand = task.batch.end();
            }
            Todo::Settle(step) => {
                assert!(matches!(step.next, Next::Halt(_)));
                assert_eq!(death, ATTEMPTS);
                return;
            }
            other @ (Todo::AwaitNeighbour | Todo::Nothing) => panic!("{other:?}"),
        }
        suspect = work.suspect();
    }
}

#[test]
fn a_successor_that_kills_again_and_again_needs_a_person() {
    let connector = never();
    let mut suspect = Some(Suspect {
        position: at(1),
        attempts: ATTEMPTS,
        stage: Stage::Probing(at(2)),
        code: "NO".to_owned(),
        error: "no".to_owned(),
    });
    for death in 1.. {
        let before = Before {
            suspect: suspect.clone(),
            died: true,
            in_hand: Some(at(2)),
            ..Before::default()
        };
        let mut work = Work::new(rules(&connector), batch(&[1, 1]), at(2), before);
        suspect = work.suspect();
        match work.todo() {
            Todo::Deliver(task) => assert_eq!(task.batch.first().position(), at(2)),
            Todo::Settle(step) => {
                assert!(matches!(step.next, Next::Halt(_)));
                assert_eq!(death, ATTEMPTS);
                return;
            }
            other @ (Todo::AwaitNeighbour | Todo::Nothing) => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_kills_is_not_tried_again_in_an_outage() {
    let connector = never();
    let before = Before {
        suspect: Some(Suspect {
            position: at(1),
            attempts: ATTEMPTS,
            stage: Stage::Alone,
            code: "CRASHED".to_owned(),
            error: "it died".to_owned(),
        }),
        ..Before::default()
    };
    let mut work = Work::new(rules(&connector), batch(&[1, 2]), at(2), before);
    for _ in 0..20 {
        assert_eq!(next_seq(&mut work), 2);
        let step = work.after(Err(SinkError::unavailable("connect")));
        assert!(matches!(step.next, Next::BackOff(_)));
    }
}

#[test]
fn an_outage_that_ends_at_the_neighbour_blames_nobody() {
    let connector = never();
    let mut work = Work::new(rules(&connector), batch(&[1, 2]), at(2), Before::default());
    let refused = || Ok(Delivery::Each(vec![Verdict::Refused(refusal())]));
    let both = vec![Verdict::Refused(refusal()); 2];
    let mut next = |answer: Attempt| {
        let seq = next_seq(&mut work);
        (seq, work.after(answer))
    };
    next(Ok(Delivery::Each(both)));
    // The other one was refused as well: it is asked when nobody else is left.
    for _ in 0..=ATTEMPTS {
        assert_eq!(next(refused()).0, 1);
    }
    assert_eq!(next(Ok(Delivery::All)).0, 2, "the outage is over");
    let (seq, step) = next(Ok(Delivery::All));
    assert_eq!(seq, 1, "the suspect gets its last attempt");
    assert!(step.dead_letters.is_empty());
    assert_eq!(step.up_to, Some(at(2)), "both are delivered");
    assert!(matches!(work.todo(), Todo::Nothing));
}

#[test]
fn a_successor_of_the_same_key_decides_once_it_was_sent() {
    let connector = never();
    let begin = |suspect| {
        let before = Before {
            suspect,
            ..Before::default()
        };
        Work::new(rules(&connector), batch(&[1, 1]), at(2), before)
    };
    let seq = |work: &mut Work<'_>| match work.todo() {
        Todo::Deliver(task) => (task.batch.first().position().seq, task.mark),
        other @ (Todo::Settle(_) | Todo::AwaitNeighbour | Todo::Nothing) => panic!("{other:?}"),
    };
    let refused = || Ok(Delivery::Each(vec![Verdict::Refused(refusal())]));
    let out = || Err(SinkError::unavailable("connect"));
    let mut work = begin(None);
    seq(&mut work);
    work.after(Ok(Delivery::Each(vec![Verdict::Refused(refusal()); 2])));
    for _ in 0..ATTEMPTS {
        assert_eq!(seq(&mut work), (1, false));
        work.after(refused());
    }
    assert_eq!(seq(&mut work), (2, true), "it is written down first");
    work.after(out());
    assert_eq!(seq(&mut work), (2, true), "not known: it alone can tell");
    // The process dies, or stops: the next one asks the successor again.
    let mut work = begin(work.suspect());
    assert_eq!(seq(&mut work), (2, true));
    work.after(refused());
    assert_eq!(seq(&mut work), (1, false), "an outage: the suspect again");
    work.after(refused());
    assert_eq!(seq(&mut work), (2, true));
    let step = work.after(Ok(Delivery::All));
    assert_eq!(step.dead_letters.len(), 1);
    assert_eq!(
        step.up_to,
        Some(at(2)),
        "and the successor is not sent again"
    );
}

#[test]
fn an_outage_in_between_starts_the_count_again() {
    let connector = never();
    let mut work = Work::new(rules(&connector), batch(&[1]), at(1), Before::default());
    let refused = || Ok(Delivery::Each(vec![Verdict::Refused(refusal())]));
    for _ in 0..ATTEMPTS - 1 {
        work.todo();
        work.after(refused());
    }
    assert_eq!(work.suspect().unwrap().attempts, ATTEMPTS - 1);
    for kind in [ErrorKind::Unavailable, ErrorKind::Misconfigured] {
        work.todo();
        work.after(Err(SinkError::new(kind, "out")));
        assert_eq!(work.suspect(), None);
        work.todo();
        work.after(refused());
    }
    work.todo();
    work.after(Ok(Delivery::Each(vec![Verdict::Unconfirmed])));
    assert_eq!(work.suspect(), None);
}

#[test]
fn a_sink_that_cannot_be_opened_is_nobodys_fault() {
    let connector = never();
    let mut work = Work::new(rules(&connector), batch(&[1]), at(1), Before::default());
    for _ in 0..20 {
        work.todo();
        let step = work.not_opened(SinkError::failed("connect"));
        assert!(matches!(step.next, Next::BackOff(_)));
        assert_eq!(work.suspect(), None);
    }
}

#[test]
fn an_event_that_kills_the_process_is_found_by_its_deaths() {
    let connector = never();
    let mut suspect = None;
    let mut deaths = 0;
    // Its range was halved down to itself; each process dies in the delivery.
    loop {
        let before = Before {
            suspect: suspect.clone(),
            died: deaths > 0,
            in_hand: Some(at(1)),
            ..Before::default()
        };
        let mut work = Work::new(rules(&connector), batch(&[1]), at(1), before);
        suspect = work.suspect();
        match work.todo() {
            Todo::Deliver(task) => assert_eq!(task.batch.first().position(), at(1)),
            Todo::AwaitNeighbour => break,
            other @ (Todo::Settle(_) | Todo::Nothing) => panic!("{other:?}"),
        }
        deaths += 1;
        assert!(deaths < 20);
    }
    assert_eq!(deaths, ATTEMPTS, "after that it is not tried again");
    // Another event appears and goes through; the last attempt kills once more.
    let before = Before {
        suspect,
        died: true,
        ..Before::default()
    };
    let mut work = Work::new(rules(&connector), batch(&[1]), at(1), before);
    assert!(matches!(work.todo(), Todo::AwaitNeighbour));
    work.extend(Some(Batch::new(vec![event(2, 2)]).unwrap()), at(2));
    let Todo::Deliver(task) = work.todo() else {
        panic!("the neighbour")
    };
    assert!(task.batch.is_apart() && task.batch.first().position() == at(2));
    work.after(Ok(Delivery::All));
    let Todo::Deliver(task) = work.todo() else {
        panic!("the last attempt")
    };
    assert!(task.mark, "so that a death in it counts");
    let before = Before {
        suspect: work.suspect(),
        died: true,
        ..Before::default()
    };
    let mut work = Work::new(rules(&connector), batch(&[1]), at(1), before);
    let Todo::Settle(step) = work.todo() else {
        panic!("it is decided")
    };
    assert_eq!(step.dead_letters[0].code, "CRASHED");
    assert_eq!(step.up_to, Some(at(1)));
}

#[test]
fn a_range_in_which_the_process_died_is_halved() {
    let connector = never();
    let before = Before {
        died: true,
        ..Before::default()
    };
    for (events, half) in [(&[1, 2, 3, 4][..], 2), (&[1, 2], 1)] {
        let (batch, end) = (batch(events), at(99));
        let mut work = Work::new(rules(&connector), batch, end, before.clone());
        let Todo::Deliver(task) = work.todo() else {
            panic!("a half")
        };
        assert_eq!(task.batch.len(), half);
        assert_eq!(work.suspect(), None, "the first of two is not blamed alone");
    }
}

#[test]
fn a_frozen_range_is_settled_as_a_whole() {
    let connector = never();
    let frozen = Rules {
        frozen: true,
        ..rules(&connector)
    };
    let mut work = Work::new(frozen, batch(&[1, 2, 3]), at(3), Before::default());
    let all = |work: &mut Work<'_>| match work.todo() {
        Todo::Deliver(task) => task.batch.len(),
        other @ (Todo::Settle(_) | Todo::AwaitNeighbour | Todo::Nothing) => panic!("{other:?}"),
    };
    assert_eq!(all(&mut work), 3);
    let verdicts = |last| {
        let dead = Verdict::Undeliverable(refusal());
        Ok(Delivery::Each(vec![Verdict::Delivered, dead, last]))
    };
    let step = work.after(verdicts(Verdict::Unconfirmed));
    assert_eq!((step.up_to, step.dead_letters.len()), (None, 0));
    assert_eq!(all(&mut work), 3, "the very same range again");
    let step = work.after(verdicts(Verdict::Delivered));
    assert_eq!((step.up_to, step.dead_letters.len()), (Some(at(3)), 1));
}

fn fate(of: u8) -> Fate {
    match of {
        0..=6 => Fate::Fine,
        7 => Fate::Refused,
        8 => Fate::Fails,
        _ => Fate::Undeliverable,
    }
}

proptest! {
    #[test]
    fn exactly_the_bad_events_become_dead_letters_and_keys_keep_their_order(
        of in proptest::collection::vec((0u8..10, 0usize..4), 1..40),
    ) {
        let mut fates: Vec<_> = of.iter().map(|(of, _)| fate(*of)).collect();
        let mut keys: Vec<_> = of.iter().map(|(_, key)| *key).collect();
        // Something good of another key follows: there is always a neighbour.
        fates.push(Fate::Fine);
        keys.push(99);
        let (mut world, connector) = (World::new(&fates), never());
        let last = at(i64::try_from(fates.len()).unwrap());
        let mut work = Work::new(rules(&connector), batch(&keys), last, Before::default());
        prop_assert!(world.work_off_reading(&mut work, 20_000, one_more), "it comes to an end");
        for (seq, fate) in (1..).zip(&fates) {
            prop_assert_eq!(world.dead.contains_key(&seq), *fate != Fate::Fine, "{}", seq);
            prop_assert_eq!(world.delivered.contains(&seq), *fate == Fate::Fine);
        }
        prop_assert_eq!(world.cursor, at(i64::try_from(world.fates.len()).unwrap()));
    }

    #[test]
    fn an_outage_of_any_mix_blames_nobody_while_other_keys_follow(
        answers in proptest::collection::vec((0u8..5, any::<bool>()), 1..300),
    ) {
        let connector = never();
        let mut work = Work::new(rules(&connector), batch(&[1, 2, 1, 3, 2]), at(5), Before::default());
        for (answer, _) in &answers {
            let Todo::Deliver(task) = work.todo() else { break };
            let each = |verdict: Verdict| Ok(Delivery::Each(vec![verdict; task.batch.len()]));
            let step = work.after(match answer {
                0 => Err(SinkError::unavailable("x")),
                1 => Err(SinkError::failed("x")),
                2 => Err(SinkError::misconfigured("x", "y")),
                3 => each(Verdict::Refused(refusal())),
                _ => each(Verdict::Unconfirmed),
            });
            prop_assert!(step.dead_letters.is_empty() && step.up_to.is_none());
        }
        // It ends, at whatever point of a trial.
        let mut world = World::new(&[Fate::Fine; 5]);
        prop_assert!(world.work_off(&mut work, 1_000));
        prop_assert!(world.dead.is_empty());
        prop_assert_eq!(world.cursor, at(5));
    }
}
