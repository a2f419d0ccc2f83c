//! Settlements: all or nothing, once, and by the newest holder alone (OB-2, OB-3, OB-7).

use std::time::Duration;

use outbox::{Mark, Owned, Position, Stage, Then};
use serde_json::Value;
use sqlx::Connection;
use tokio::time::timeout;

use crate::fixture::{Outbox, on_each_postgres};
use crate::holding::{
    claim, column, cursor, dead_letter, dead_letters, failure, go, hold, lease, mark, row, settle,
    settlement, suspect,
};

const AT: Position = Position::new(7, 9);

/// The cursor's row without the times that a repetition sets anew.
async fn state(outbox: &Outbox) -> (Value, Vec<Value>) {
    let mut row = row(outbox).await;
    for clock in ["next_retry_at", "paused_at"] {
        if !row[clock].is_null() {
            row[clock] = "some time".into();
        }
    }
    (row, dead_letters(outbox).await)
}

#[tokio::test]
async fn a_cursor_never_moves_back() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        assert_eq!(go(&outbox, &one, AT).await, Owned::Yes);
        for lower in [Position::new(7, 8), Position::new(6, 99)] {
            for then in [
                Then::Go,
                Then::BackOff(failure(None)),
                Then::Pause(String::new()),
            ] {
                let letters = [dead_letter(Position::new(8, 1))];
                for letters in [vec![], letters.to_vec()] {
                    let back = settlement(lower, letters, then.clone());
                    assert_eq!(settle(&outbox, &one, &back).await, Owned::No);
                }
            }
            let begun = Mark {
                end: lower,
                hunt: None,
                suspect: None,
            };
            assert_eq!(mark(&outbox, &one, &begun).await, Owned::No);
        }
        let found = cursor(&outbox, &one).await;
        assert_eq!(
            (found.position, found.attempts, found.paused),
            (AT, 0, None)
        );
        assert_eq!(dead_letters(&outbox).await, [Value::Null; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_failure_moves_the_cursor_past_what_was_delivered() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        for up_to in [Some(AT), None] {
            let part = settlement(up_to, [], Then::BackOff(failure(None)));
            assert_eq!(settle(&outbox, &one, &part).await, Owned::Yes);
            let found = cursor(&outbox, &one).await;
            assert_eq!((found.position, found.attempts), (AT, 3));
        }
    })
    .await;
}

/// The server would number its transactions up to there once more.
#[tokio::test]
async fn a_position_that_the_server_has_not_reached_is_not_written() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let ahead = Position::new(1 << 40, 1);
        let before = state(&outbox).await;
        for settlement in [
            settlement(ahead, [], Then::Go),
            settlement(ahead, [], Then::BackOff(failure(None))),
            settlement(ahead, [], Then::Pause("why".to_owned())),
            settlement(ahead, [dead_letter(AT)], Then::Go),
            settlement(AT, [dead_letter(ahead)], Then::Go),
            settlement(None, [dead_letter(ahead)], Then::BackOff(failure(None))),
        ] {
            let settled = settle(&outbox, &one, &settlement).await;
            assert_eq!(settled, Owned::No, "{settlement:?}");
            assert_eq!(state(&outbox).await, before);
        }
        let begun = Mark {
            end: ahead,
            hunt: None,
            suspect: None,
        };
        assert_eq!(mark(&outbox, &one, &begun).await, Owned::No);
        assert_eq!(state(&outbox).await, before);
        let end = outbox.database.head().await.unwrap().end();
        let settled = go(&outbox, &one, end).await;
        assert_eq!(settled, Owned::Yes, "the end is below the horizon");
    })
    .await;
}

/// B34, OB-3.
#[tokio::test]
async fn an_earlier_holder_writes_nothing_after_a_takeover() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let two = hold(&outbox, "two").await;
        let before = state(&outbox).await;
        for then in [
            Then::Go,
            Then::BackOff(failure(Some(suspect(AT, Stage::Alone)))),
            Then::Pause("why".to_owned()),
        ] {
            for letters in [vec![], vec![dead_letter(AT)]] {
                let late = settlement(Position::new(9, 9), letters, then.clone());
                assert_eq!(settle(&outbox, &one, &late).await, Owned::No);
            }
        }
        let begun = Mark {
            end: AT,
            hunt: Some(AT),
            suspect: None,
        };
        assert_eq!(mark(&outbox, &one, &begun).await, Owned::No);
        assert_eq!(claim(&outbox, &one).await, None);
        assert_eq!(state(&outbox).await, before);
        assert_eq!(cursor(&outbox, &two).await.position, Position::BEGINNING);
    })
    .await;
}

/// B34: the late settlement arrives while the takeover's claim has the row and has not
/// committed.
#[tokio::test]
async fn a_late_settlement_that_waits_for_a_takeover_loses() {
    on_each_postgres(async |outbox| {
        for letters in [vec![], vec![dead_letter(AT)]] {
            let one = hold(&outbox, "one").await;
            let mut other = outbox.application().await;
            let mut takeover = other.begin().await.unwrap();
            sqlx::query(outbox.sql("update {s}.outbox_cursors set token = $1"))
                .bind(one.token + 1)
                .execute(&mut *takeover)
                .await
                .unwrap();
            let late = settlement(Position::new(9, 9), letters, Then::Go);
            let late = settle(&outbox, &one, &late);
            tokio::pin!(late);
            let waited = timeout(Duration::from_millis(200), &mut late).await;
            assert!(waited.is_err(), "it waits");
            takeover.commit().await.unwrap();
            assert_eq!(late.await, Owned::No);
            assert_eq!(dead_letters(&outbox).await, [Value::Null; 0]);
            assert_eq!(row(&outbox).await["txid"], "0");
            lease(&outbox, "two").await;
        }
    })
    .await;
}

/// What an operator changes meanwhile in the same row stays.
#[tokio::test]
async fn a_settlement_that_waits_for_a_pause_keeps_it() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let begun = Mark {
            end: Position::new(8, 1),
            hunt: Some(Position::new(8, 8)),
            suspect: None,
        };
        assert_eq!(mark(&outbox, &one, &begun).await, Owned::Yes);
        let mut other = outbox.application().await;
        let mut pause = other.begin().await.unwrap();
        sqlx::raw_sql(outbox.sql(
            "update {s}.outbox_cursors set paused_at = now(), pause_reason = 'lunch',
                 hunt_txid = '9', hunt_seq = 1",
        ))
        .execute(&mut *pause)
        .await
        .unwrap();
        let settled = go(&outbox, &one, AT);
        tokio::pin!(settled);
        let waited = timeout(Duration::from_millis(200), &mut settled).await;
        assert!(waited.is_err(), "it waits");
        pause.commit().await.unwrap();
        assert_eq!(settled.await, Owned::Yes);
        let found = cursor(&outbox, &one).await;
        assert_eq!((found.position, found.in_hand), (AT, Some(begun.end)));
        assert_eq!(found.paused.as_deref(), Some("lunch"));
        assert_eq!(
            found.hunt,
            Some(Position::new(9, 1)),
            "what the row has now"
        );
    })
    .await;
}

/// OB-7.
#[tokio::test]
async fn a_repeated_settlement_changes_nothing_more() {
    on_each_postgres(async |outbox| {
        let mut at = AT;
        let on_trial = suspect(Position::new(8, 1), Stage::Comparing);
        for then in [
            Then::Go,
            Then::BackOff(failure(Some(on_trial))),
            Then::Pause("why".to_owned()),
        ] {
            for with_letters in [false, true] {
                let one = hold(&outbox, "one").await;
                let before = dead_letters(&outbox).await.len();
                at.seq += 10;
                let letters = [Position::new(7, at.seq - 2), at].map(dead_letter).to_vec();
                let letters = if with_letters { letters } else { vec![] };
                let written = before + letters.len();
                let settlement = settlement(at, letters, then.clone());
                assert_eq!(settle(&outbox, &one, &settlement).await, Owned::Yes);
                let once = state(&outbox).await;
                assert_eq!(once.1.len(), written);
                assert_eq!(settle(&outbox, &one, &settlement).await, Owned::Yes);
                assert_eq!(state(&outbox).await, once, "{then:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeated_settlement_leaves_what_an_operator_did_meanwhile() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let settlement = settlement(AT, [dead_letter(AT)], Then::Go);
        for state in ["discarded", "replayed", "replaying"] {
            assert_eq!(settle(&outbox, &one, &settlement).await, Owned::Yes);
            outbox
                .run(&format!(
                    "update {{s}}.outbox_dead_letters set state = '{state}'"
                ))
                .await;
            assert_eq!(settle(&outbox, &one, &settlement).await, Owned::Yes);
            assert_eq!(column(&dead_letters(&outbox).await, "state"), [state]);
        }
    })
    .await;
}

/// The first one was given up for lost, and commits while the second one waits.
#[tokio::test]
async fn a_repeated_settlement_waits_for_the_first_and_then_looks_where_the_cursor_is() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let settlement = settlement(AT, [dead_letter(AT)], Then::Go);
        let mut other = outbox.application().await;
        let mut first = other.begin().await.unwrap();
        sqlx::raw_sql(outbox.sql(
            "update {s}.outbox_cursors set txid = '7', seq = 9;
             insert into {s}.outbox_dead_letters (sink, txid, seq, event_id, topic, payload,
                 code, error, attempts, first_failed_at, state)
             values ('a', '7', 9, 'x', 'a.b', '{}', 'X', 'x', 1, now(), 'discarded')",
        ))
        .execute(&mut *first)
        .await
        .unwrap();
        let second = settle(&outbox, &one, &settlement);
        tokio::pin!(second);
        let waited = timeout(Duration::from_millis(200), &mut second).await;
        assert!(waited.is_err(), "it waits");
        first.commit().await.unwrap();
        assert_eq!(second.await, Owned::Yes);
        assert_eq!(column(&dead_letters(&outbox).await, "state"), ["discarded"]);
    })
    .await;
}

/// OB-7: the dead letters can't be written, so the cursor stays.
#[tokio::test]
async fn a_settlement_that_fails_midway_leaves_no_trace() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let before = state(&outbox).await;
        let settlement = settlement(AT, [dead_letter(AT)], Then::Go);
        for (break_it, repair) in [
            (
                "alter table {s}.outbox_dead_letters add constraint broken check (seq < 0)",
                "alter table {s}.outbox_dead_letters drop constraint broken",
            ),
            (
                "alter table {s}.outbox_cursors add constraint broken check (seq < 1)",
                "alter table {s}.outbox_cursors drop constraint broken",
            ),
        ] {
            outbox.run(break_it).await;
            let failed = outbox.database.settle("a", &one, &settlement).await;
            let error = failed.unwrap_err().to_string();
            assert!(error.starts_with("settle a delivery: "), "{error}");
            assert_eq!(state(&outbox).await, before);
            outbox.run(repair).await;
        }
        assert_eq!(settle(&outbox, &one, &settlement).await, Owned::Yes);
        assert_eq!(dead_letters(&outbox).await.len(), 1);
    })
    .await;
}

/// A call that is dropped in its transaction closes its connection: the locks go, and
/// nothing of it stays.
#[tokio::test]
async fn a_settlement_that_is_dropped_midway_holds_nothing() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let mut other = outbox.application().await;
        let mut lock = other.begin().await.unwrap();
        sqlx::raw_sql(outbox.sql("lock table {s}.outbox_dead_letters"))
            .execute(&mut *lock)
            .await
            .unwrap();
        let settlement = settlement(AT, [dead_letter(AT)], Then::Go);
        let settling = settle(&outbox, &one, &settlement);
        let waited = timeout(Duration::from_millis(300), settling).await;
        assert!(waited.is_err(), "it waits, with the cursor's row locked");
        lock.rollback().await.unwrap();
        assert_eq!(go(&outbox, &one, Position::new(3, 3)).await, Owned::Yes);
        assert_eq!(dead_letters(&outbox).await, [Value::Null; 0]);
        assert_eq!(settle(&outbox, &one, &settlement).await, Owned::Yes);
        assert_eq!(dead_letters(&outbox).await.len(), 1);
    })
    .await;
}
