//! Whom a suspect is compared with, and what that says.

use super::*;

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
