//! Batches worked off: the bound of bisection, the cursor, frozen ranges.

use proptest::prelude::*;

use super::*;

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

#[test]
fn what_was_delivered_ends_before_the_first_event_that_was_not() {
    let undeliverable = || Verdict::Undeliverable(refusal());
    let after = |verdicts: Vec<Verdict>| {
        let connector = never();
        let mut work = Work::new(
            rules(&connector),
            batch(&[1, 2, 3]),
            at(9),
            Before::default(),
        );
        work.after(Ok(Delivery::from_verdicts(verdicts))).delivered
    };
    use Verdict::{Delivered, Unconfirmed};
    assert_eq!(after(vec![Delivered, Delivered, Delivered]), Some(at(3)));
    assert_eq!(
        after(vec![Delivered, undeliverable(), Delivered]),
        Some(at(1))
    );
    assert_eq!(
        after(vec![Delivered, undeliverable(), Unconfirmed]),
        Some(at(1))
    );
    assert_eq!(after(vec![undeliverable(), Delivered, Delivered]), None);
    assert_eq!(after(vec![undeliverable(), Delivered, Unconfirmed]), None);
    assert_eq!(after(vec![Unconfirmed, Delivered, Delivered]), None);
}
