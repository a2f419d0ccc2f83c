//! Cursors: fenced by the token, never back (OB-2, OB-3).

use std::time::Duration;

use outbox::{Cursor, Failure, Fence, Lease, Position, sink_lease};
use sqlx::Connection;
use tokio::time::{sleep, timeout};

use crate::fixture::{Outbox, on_each_postgres};

const TTL: Duration = Duration::from_secs(60);
const NOW: Duration = Duration::ZERO;

async fn lease(outbox: &Outbox, holder: &str) -> Lease {
    let name = sink_lease("a");
    outbox
        .run("update {s}.leases set expires_at = {s}.compute_now()")
        .await;
    outbox
        .database
        .acquire_lease(&name, holder, TTL)
        .await
        .unwrap()
        .unwrap()
}

async fn claim(outbox: &Outbox, lease: &Lease) -> Fence<Cursor> {
    outbox
        .database
        .claim_cursor("a", lease, Position::BEGINNING)
        .await
        .unwrap()
}

fn held(claim: Fence<Cursor>) -> Cursor {
    match claim {
        Fence::Held(cursor) => cursor,
        Fence::Fenced => panic!("the claim was fenced"),
    }
}

const FAILURE: Failure<'_> = Failure {
    up_to: None,
    attempts: 3,
    retry_in: TTL,
    kind: "unavailable",
    error: "no\0 answer",
};

#[tokio::test]
async fn a_cursor_and_its_failures_survive_a_change_of_holder() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        let one = lease(&outbox, "one").await;
        let cursor = held(claim(&outbox, &one).await);
        assert_eq!(
            (cursor.position, cursor.attempts, cursor.retry_in),
            (Position::BEGINNING, 0, None)
        );
        let position = Position::new(7, 9);
        assert_eq!(
            database.save_cursor("a", &one, position).await.unwrap(),
            Fence::Held(())
        );
        assert_eq!(
            database.save_failure("a", &one, FAILURE).await.unwrap(),
            Fence::Held(())
        );

        let two = lease(&outbox, "two").await;
        let cursor = held(claim(&outbox, &two).await);
        assert_eq!((cursor.position, cursor.attempts), (position, 3));
        assert!(cursor.retry_in.unwrap() > TTL / 2);
        assert_eq!(cursor.last_error.as_deref(), Some("no answer"));
        assert_eq!(cursor.last_error_kind.as_deref(), Some("unavailable"));

        assert_eq!(
            database.save_cursor("a", &two, position).await.unwrap(),
            Fence::Held(())
        );
        let cursor = held(claim(&outbox, &two).await);
        assert_eq!(
            (cursor.attempts, cursor.retry_in, cursor.last_error),
            (0, None, None)
        );
    })
    .await;
}

#[tokio::test]
async fn a_cursor_never_moves_back() {
    on_each_postgres(async |outbox| {
        let one = lease(&outbox, "one").await;
        held(claim(&outbox, &one).await);
        let save = async |position| outbox.database.save_cursor("a", &one, position).await;
        assert_eq!(save(Position::new(7, 9)).await.unwrap(), Fence::Held(()));
        for lower in [Position::new(7, 8), Position::new(6, 99)] {
            assert_eq!(save(lower).await.unwrap(), Fence::Fenced);
        }
        assert_eq!(
            held(claim(&outbox, &one).await).position,
            Position::new(7, 9)
        );
    })
    .await;
}

#[tokio::test]
async fn a_failure_moves_the_cursor_past_what_was_delivered_and_never_back() {
    on_each_postgres(async |outbox| {
        let one = lease(&outbox, "one").await;
        held(claim(&outbox, &one).await);
        let fail = async |up_to| {
            let failure = Failure { up_to, ..FAILURE };
            let noted = outbox.database.save_failure("a", &one, failure).await;
            let cursor = held(claim(&outbox, &one).await);
            (noted.unwrap(), cursor.position, cursor.attempts)
        };
        let part = Position::new(7, 9);
        assert_eq!(fail(Some(part)).await, (Fence::Held(()), part, 3));
        assert_eq!(fail(None).await, (Fence::Held(()), part, 3));
        let lower = Some(Position::new(7, 8));
        assert_eq!(fail(lower).await, (Fence::Fenced, part, 3));
    })
    .await;
}

/// The server would number its transactions up to there once more.
#[tokio::test]
async fn a_position_that_the_server_has_not_reached_is_not_saved() {
    on_each_postgres(async |outbox| {
        let one = lease(&outbox, "one").await;
        held(claim(&outbox, &one).await);
        let ahead = Position::new(1 << 40, 1);
        let saved = outbox.database.save_cursor("a", &one, ahead).await.unwrap();
        assert_eq!(saved, Fence::Fenced);
        let failure = Failure {
            up_to: Some(ahead),
            ..FAILURE
        };
        let noted = outbox.database.save_failure("a", &one, failure).await;
        assert_eq!(noted.unwrap(), Fence::Fenced);
        let cursor = held(claim(&outbox, &one).await);
        assert_eq!((cursor.position, cursor.attempts), (Position::BEGINNING, 0));
        let head = outbox.database.head().await.unwrap();
        let end = head.end();
        let saved = outbox.database.save_cursor("a", &one, end).await.unwrap();
        assert_eq!(saved, Fence::Held(()), "the end is below the horizon");
    })
    .await;
}

#[tokio::test]
async fn a_lost_lease_begins_above_the_cursors_token() {
    on_each_postgres(async |outbox| {
        let mut holder = lease(&outbox, "one").await;
        held(claim(&outbox, &holder).await);
        for loss in ["delete from {s}.leases", "update {s}.leases set token = 0"] {
            for name in ["two", "three"] {
                let next = lease(&outbox, name).await;
                assert!(next.token > holder.token, "{loss}");
                holder = next;
                held(claim(&outbox, &holder).await);
            }
            outbox.run(loss).await;
        }
        let next = lease(&outbox, "four").await;
        assert!(next.token > holder.token);
        held(claim(&outbox, &next).await);
    })
    .await;
}

/// B34.
#[tokio::test]
async fn an_earlier_holder_writes_nothing_after_a_takeover() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        let one = lease(&outbox, "one").await;
        held(claim(&outbox, &one).await);
        let two = lease(&outbox, "two").await;
        held(claim(&outbox, &two).await);
        let late = Position::new(9, 9);
        assert_eq!(
            database.save_cursor("a", &one, late).await.unwrap(),
            Fence::Fenced
        );
        assert_eq!(
            database.save_failure("a", &one, FAILURE).await.unwrap(),
            Fence::Fenced
        );
        assert_eq!(claim(&outbox, &one).await, Fence::Fenced);
        assert_eq!(
            held(claim(&outbox, &two).await).position,
            Position::BEGINNING
        );
    })
    .await;
}

/// B34: the late save arrives while the takeover's claim has the row and has not committed.
#[tokio::test]
async fn a_late_save_that_waits_for_a_takeover_loses() {
    on_each_postgres(async |outbox| {
        let one = lease(&outbox, "one").await;
        held(claim(&outbox, &one).await);
        let mut other = outbox.application().await;
        let mut takeover = other.begin().await.unwrap();
        sqlx::query(outbox.sql("update {s}.outbox_cursors set token = $1"))
            .bind(one.token + 1)
            .execute(&mut *takeover)
            .await
            .unwrap();
        let save = outbox.database.save_cursor("a", &one, Position::new(9, 9));
        tokio::pin!(save);
        assert!(
            timeout(Duration::from_millis(200), &mut save)
                .await
                .is_err(),
            "it waits"
        );
        takeover.commit().await.unwrap();
        assert_eq!(save.await.unwrap(), Fence::Fenced);
    })
    .await;
}

/// B34: the takeover's claim arrives while a save has the row and has not committed.
#[tokio::test]
async fn a_takeover_that_waits_for_a_save_goes_on_from_it() {
    on_each_postgres(async |outbox| {
        let one = lease(&outbox, "one").await;
        held(claim(&outbox, &one).await);
        let two = lease(&outbox, "two").await;
        let mut other = outbox.application().await;
        let mut save = other.begin().await.unwrap();
        sqlx::query(
            outbox.sql("update {s}.outbox_cursors set txid = '9', seq = 9 where token = $1"),
        )
        .bind(one.token)
        .execute(&mut *save)
        .await
        .unwrap();
        let takeover = claim(&outbox, &two);
        tokio::pin!(takeover);
        assert!(
            timeout(Duration::from_millis(200), &mut takeover)
                .await
                .is_err(),
            "it waits"
        );
        save.commit().await.unwrap();
        assert_eq!(held(takeover.await).position, Position::new(9, 9));
    })
    .await;
}

#[tokio::test]
async fn status_shows_holder_and_lag() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        let published = outbox.publish_subjects(0..25).await;
        sleep(Duration::from_millis(20)).await;
        outbox.head_after(published[0].position).await;
        let one = lease(&outbox, "one").await;
        let start = published[4].position;
        let claim = database.claim_cursor("a", &one, start).await.unwrap();
        assert_eq!(held(claim).position, start);
        assert_eq!(
            database.save_failure("a", &one, FAILURE).await.unwrap(),
            Fence::Held(())
        );
        let status = database.cursors().await.unwrap().remove(0);
        assert_eq!((status.sink.as_str(), status.position), ("a", start));
        assert_eq!(status.holder.as_deref(), Some("one"));
        assert_eq!((status.lag, status.attempts), (20, 3));
        assert!(status.lag_age.unwrap() >= Duration::from_millis(10));
        assert!(status.retry_in.is_some());

        database.release_lease(&one).await.unwrap();
        let end = published[24].position;
        let saved = database.save_cursor("a", &one, end).await.unwrap();
        assert_eq!(saved, Fence::Held(()), "the token is what counts");
        let status = database.cursors().await.unwrap().remove(0);
        assert_eq!((status.holder, status.lag, status.lag_age), (None, 0, None));
        assert_eq!(status.retry_in, None);
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_is_over_is_none() {
    on_each_postgres(async |outbox| {
        let one = lease(&outbox, "one").await;
        held(claim(&outbox, &one).await);
        let failure = Failure {
            retry_in: NOW,
            ..FAILURE
        };
        assert_eq!(
            outbox
                .database
                .save_failure("a", &one, failure)
                .await
                .unwrap(),
            Fence::Held(())
        );
        sleep(Duration::from_millis(5)).await;
        let cursor = held(claim(&outbox, &one).await);
        assert_eq!((cursor.attempts, cursor.retry_in), (3, None));
    })
    .await;
}

/// A23.
#[tokio::test]
async fn a_cursor_from_another_cluster_is_known_as_such() {
    on_each_postgres(async |outbox| {
        let one = lease(&outbox, "one").await;
        assert!(!held(claim(&outbox, &one).await).foreign);
        outbox
            .run("update {s}.outbox_cursors set system_identifier = 1")
            .await;
        assert!(held(claim(&outbox, &one).await).foreign);
    })
    .await;
}
