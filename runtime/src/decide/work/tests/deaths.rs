//! What the deaths of processes say about events.

use super::*;

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
