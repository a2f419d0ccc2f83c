//! What a cursor row remembers of a suspect, a marked range and a hunt, and until when.

use std::time::Duration;

use outbox::{Mark, Owned, Position, Stage, Suspect, Then};
use tokio::time::sleep;

use crate::fixture::{Outbox, on_each_postgres};
use crate::holding::{
    back_off, cursor, dead_letter, dead_letters, failure, filled, go, hold, lease, mark, row,
    settle, settlement, suspect,
};

const AT: Position = Position::new(7, 9);
const NEXT: Position = Position::new(8, 1);
const LATER: Position = Position::new(8, 5);

const SUSPECT: [&str; 9] = [
    "suspect_txid",
    "suspect_seq",
    "suspect_attempts",
    "suspect_since",
    "suspect_stage",
    "suspect_code",
    "suspect_error",
    "probe_txid",
    "probe_seq",
];

fn begun(end: Position, hunt: Option<Position>) -> Mark {
    Mark {
        end,
        hunt,
        suspect: None,
    }
}

/// What happens to a suspect at `NEXT` by a settlement.
async fn suspect_after(outbox: &Outbox, up_to: Option<Position>, then: Then) -> bool {
    outbox.run("delete from {s}.outbox_cursors").await;
    let one = hold(outbox, "one").await;
    let stage = Stage::Probing(LATER);
    let failure = failure(Some(suspect(NEXT, stage)));
    assert_eq!(back_off(outbox, &one, failure).await, Owned::Yes);
    assert_eq!(filled(outbox, &SUSPECT).await, SUSPECT);
    let settled = settle(outbox, &one, &settlement(up_to, [], then)).await;
    assert_eq!(settled, Owned::Yes);
    let filled = filled(outbox, &SUSPECT).await;
    assert!(filled.is_empty() || filled == SUSPECT, "{filled:?}");
    let found = cursor(outbox, &one).await.suspect;
    assert_eq!(found.is_some(), !filled.is_empty());
    found.is_some()
}

#[tokio::test]
async fn a_suspect_is_forgotten_once_it_is_passed_or_a_failure_names_none() {
    on_each_postgres(async |outbox| {
        let again = || Then::BackOff(failure(Some(suspect(NEXT, Stage::Probing(LATER)))));
        let cleared = || Then::BackOff(failure(None));
        let pause = || Then::Pause("why".to_owned());
        for (up_to, then, stays) in [
            (None, Then::Go, true),
            (Some(AT), Then::Go, true),
            (Some(NEXT), Then::Go, false),
            (None, again(), true),
            (Some(AT), again(), true),
            (Some(NEXT), again(), false),
            (Some(LATER), again(), false),
            (None, cleared(), false),
            (None, pause(), true),
            (Some(AT), pause(), true),
            (Some(NEXT), pause(), false),
        ] {
            let stayed = suspect_after(&outbox, up_to, then.clone()).await;
            assert_eq!(stayed, stays, "{up_to:?} {then:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn every_stage_reads_back_as_it_was_written() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        for stage in [
            Stage::Alone,
            Stage::Comparing,
            Stage::Probing(LATER),
            Stage::Confirming,
        ] {
            let of = suspect(NEXT, stage);
            let written = back_off(&outbox, &one, failure(Some(of.clone()))).await;
            assert_eq!(written, Owned::Yes);
            assert_eq!(cursor(&outbox, &one).await.suspect, Some(of.clone()));
            let marked = Mark {
                suspect: Some(of.clone()),
                ..begun(LATER, None)
            };
            assert_eq!(go(&outbox, &one, AT).await, Owned::Yes);
            assert_eq!(mark(&outbox, &one, &marked).await, Owned::Yes);
            assert_eq!(cursor(&outbox, &one).await.suspect, Some(of));
            assert_eq!(
                mark(&outbox, &one, &begun(LATER, None)).await,
                Owned::Yes,
                "a mark without a suspect clears it"
            );
            assert_eq!(cursor(&outbox, &one).await.suspect, None);
        }
    })
    .await;
}

#[tokio::test]
async fn a_suspect_is_suspected_since_it_first_was() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let of = |position| failure(Some(suspect(position, Stage::Alone)));
        assert_eq!(back_off(&outbox, &one, of(NEXT)).await, Owned::Yes);
        let since = row(&outbox).await["suspect_since"].clone();
        sleep(Duration::from_millis(5)).await;
        assert_eq!(back_off(&outbox, &one, of(NEXT)).await, Owned::Yes);
        let marked = Mark {
            suspect: Some(suspect(NEXT, Stage::Confirming)),
            ..begun(LATER, None)
        };
        assert_eq!(mark(&outbox, &one, &marked).await, Owned::Yes);
        let two = hold(&outbox, "two").await;
        let pause = settlement(AT, [], Then::Pause(String::new()));
        assert_eq!(settle(&outbox, &two, &pause).await, Owned::Yes);
        assert_eq!(row(&outbox).await["suspect_since"], since);

        let letters = [dead_letter(NEXT), dead_letter(LATER)];
        let dead = settlement(LATER, letters, Then::Go);
        assert_eq!(settle(&outbox, &two, &dead).await, Owned::Yes);
        let letters = dead_letters(&outbox).await;
        assert_eq!(letters[0]["first_failed_at"], since);
        assert!(letters[1]["first_failed_at"].as_str() > since.as_str());

        assert_eq!(
            back_off(&outbox, &two, of(Position::new(9, 1))).await,
            Owned::Yes
        );
        assert_ne!(row(&outbox).await["suspect_since"], since, "another event");
    })
    .await;
}

#[tokio::test]
async fn a_marked_range_and_a_hunt_last_until_they_are_passed() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let end = Position::new(20, 20);
        assert_eq!(
            mark(&outbox, &one, &begun(LATER, Some(end))).await,
            Owned::Yes
        );
        let found = cursor(&outbox, &one).await;
        assert_eq!((found.in_hand, found.hunt), (Some(LATER), Some(end)));
        assert!(found.delivering);

        for (up_to, then) in [
            (None, Then::BackOff(failure(None))),
            (Some(NEXT), Then::Pause(String::new())),
            (Some(NEXT), Then::Go),
        ] {
            assert_eq!(
                mark(&outbox, &one, &begun(LATER, Some(end))).await,
                Owned::Yes
            );
            let settled = settle(&outbox, &one, &settlement(up_to, [], then)).await;
            assert_eq!(settled, Owned::Yes);
            let found = cursor(&outbox, &one).await;
            assert_eq!((found.in_hand, found.hunt), (Some(LATER), Some(end)));
            assert!(!found.delivering, "it is settled");
        }
        assert_eq!(go(&outbox, &one, LATER).await, Owned::Yes);
        let found = cursor(&outbox, &one).await;
        assert_eq!((found.in_hand, found.hunt), (None, Some(end)));
        let past = settlement(end, [], Then::BackOff(failure(None)));
        assert_eq!(settle(&outbox, &one, &past).await, Owned::Yes);
        assert_eq!(cursor(&outbox, &one).await.hunt, None);

        let after = begun(Position::new(21, 1), None);
        assert_eq!(mark(&outbox, &one, &after).await, Owned::Yes);
        let pause = settlement(Position::new(21, 1), [], Then::Pause(String::new()));
        assert_eq!(settle(&outbox, &one, &pause).await, Owned::Yes);
        assert_eq!(cursor(&outbox, &one).await.in_hand, None);
    })
    .await;
}

#[tokio::test]
async fn what_is_said_of_a_suspect_is_bounded_and_has_no_nul() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let of = Suspect {
            code: "nul\0 ü".repeat(100),
            error: "nul\0 ü".repeat(1_000),
            attempts: u32::MAX,
            ..suspect(NEXT, Stage::Alone)
        };
        let written = back_off(&outbox, &one, failure(Some(of))).await;
        assert_eq!(written, Owned::Yes);
        let found = cursor(&outbox, &one).await.suspect.unwrap();
        assert!(found.error.starts_with("nul ünul ü"));
        assert_eq!(found.error.chars().count(), 2_000);
        assert_eq!(found.code.chars().count(), 100);
        assert!(found.attempts > 1_000_000);
    })
    .await;
}

/// H6: what was in hand of a holder that died is found by the next one, and counts once.
#[tokio::test]
async fn a_delivery_that_was_begun_shows_to_the_next_holder() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        assert_eq!(mark(&outbox, &one, &begun(LATER, None)).await, Owned::Yes);
        let two = lease(&outbox, "two").await;
        assert!(two.abandoned);
        let found = cursor(&outbox, &two).await;
        assert_eq!((found.in_hand, found.delivering), (Some(LATER), true));
        let found = cursor(&outbox, &two).await;
        assert_eq!((found.in_hand, found.delivering), (Some(LATER), false));
    })
    .await;
}
