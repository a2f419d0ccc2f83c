//! Cursors: claimed under a token, sought by command, never back otherwise (OB-2, OB-3).

use std::time::Duration;

use outbox::{Failure, Mark, Origin, Owned, Position, SeekTarget, Stage, Then};
use sqlx::Connection;
use tokio::time::{sleep, timeout};

use crate::fixture::on_each_postgres;
use crate::holding::{
    TTL, back_off, claim, cursor, failure, filled, go, hold, lease, mark, row, settle, settlement,
    suspect,
};

#[tokio::test]
async fn a_cursor_and_its_failures_survive_a_change_of_holder() {
    on_each_postgres(async |outbox| {
        let one = lease(&outbox, "one").await;
        let found = cursor(&outbox, &one).await;
        assert_eq!(
            (found.position, found.attempts, found.retry_in),
            (Position::BEGINNING, 0, None)
        );
        let position = Position::new(7, 9);
        assert_eq!(go(&outbox, &one, position).await, Owned::Yes);
        assert_eq!(back_off(&outbox, &one, failure(None)).await, Owned::Yes);

        let two = lease(&outbox, "two").await;
        let found = cursor(&outbox, &two).await;
        assert_eq!((found.position, found.attempts), (position, 3));
        assert!(found.retry_in.unwrap() > TTL / 2);
        assert_eq!(row(&outbox).await["last_error"], "no answer");
        assert_eq!(row(&outbox).await["last_error_kind"], "unavailable");

        assert_eq!(go(&outbox, &two, position).await, Owned::Yes);
        let found = cursor(&outbox, &two).await;
        assert_eq!((found.attempts, found.retry_in), (0, None));
        let errors = ["last_error", "last_error_kind"];
        assert_eq!(filled(&outbox, &errors).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_lost_lease_begins_above_the_cursors_token() {
    on_each_postgres(async |outbox| {
        let mut holder = hold(&outbox, "one").await;
        for loss in ["delete from {s}.leases", "update {s}.leases set token = 0"] {
            for name in ["two", "three"] {
                let next = lease(&outbox, name).await;
                assert!(next.token > holder.token, "{loss}");
                holder = next;
                cursor(&outbox, &holder).await;
            }
            outbox.run(loss).await;
        }
        let next = lease(&outbox, "four").await;
        assert!(next.token > holder.token);
        cursor(&outbox, &next).await;
    })
    .await;
}

/// B34: the takeover's claim arrives while a settlement has the row and has not committed.
#[tokio::test]
async fn a_takeover_that_waits_for_a_settlement_goes_on_from_it() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
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
        let takeover = cursor(&outbox, &two);
        tokio::pin!(takeover);
        let waited = timeout(Duration::from_millis(200), &mut takeover).await;
        assert!(waited.is_err(), "it waits");
        save.commit().await.unwrap();
        assert_eq!(takeover.await.position, Position::new(9, 9));
    })
    .await;
}

/// All that a cursor row can hold of what happened at its position.
const KNOWN: [&str; 19] = [
    "next_retry_at",
    "last_error_kind",
    "last_error",
    "suspect_txid",
    "suspect_seq",
    "suspect_attempts",
    "suspect_since",
    "suspect_stage",
    "suspect_code",
    "suspect_error",
    "probe_txid",
    "probe_seq",
    "in_hand_txid",
    "in_hand_seq",
    "hunt_txid",
    "hunt_seq",
    "seek_txid",
    "seek_seq",
    "paused_at",
];

#[tokio::test]
async fn a_seek_is_carried_out_by_the_claim_and_clears_what_was_known() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        assert_eq!(go(&outbox, &one, Position::new(7, 9)).await, Owned::Yes);
        let stage = Stage::Probing(Position::new(8, 2));
        let of = failure(Some(suspect(Position::new(8, 1), stage)));
        assert_eq!(back_off(&outbox, &one, of).await, Owned::Yes);
        let begun = Mark {
            end: Position::new(8, 5),
            hunt: Some(Position::new(8, 9)),
            suspect: Some(suspect(Position::new(8, 1), stage)),
        };
        assert_eq!(mark(&outbox, &one, &begun).await, Owned::Yes);
        let held = cursor(&outbox, &one).await;
        assert_eq!(held.suspect, begun.suspect);
        assert_eq!((held.in_hand, held.hunt), (Some(begun.end), begun.hunt));
        outbox
            .run(
                "update {s}.outbox_cursors set seek_txid = '3', seek_seq = 4,
                     system_identifier = 1, paused_at = now()",
            )
            .await;
        assert_eq!(filled(&outbox, &KNOWN).await, KNOWN);

        let found = cursor(&outbox, &one).await;
        assert_eq!(found.position, Position::new(3, 4));
        assert_eq!(found.origin, Origin::Here);
        assert_eq!((found.attempts, found.delivering), (0, false));
        assert_eq!(found.paused.as_deref(), Some(""));
        assert_eq!(filled(&outbox, &KNOWN).await, ["paused_at"]);
        assert_eq!(row(&outbox).await["attempts"], 0);

        // It is obeyed once.
        assert_eq!(go(&outbox, &one, Position::new(5, 5)).await, Owned::Yes);
        assert_eq!(cursor(&outbox, &one).await.position, Position::new(5, 5));
    })
    .await;
}

/// OB-2, OB-3: an earlier holder neither carries out a seek nor undoes one.
#[tokio::test]
async fn an_earlier_holder_carries_out_no_seek() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let two = hold(&outbox, "two").await;
        assert_eq!(go(&outbox, &two, Position::new(7, 9)).await, Owned::Yes);
        outbox
            .run("update {s}.outbox_cursors set seek_txid = '3', seek_seq = 4")
            .await;
        assert_eq!(claim(&outbox, &one).await, None);
        assert_eq!(row(&outbox).await["txid"], "7");
        assert_eq!(cursor(&outbox, &two).await.position, Position::new(3, 4));
    })
    .await;
}

#[tokio::test]
async fn a_pause_is_found_with_its_reason() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        assert_eq!(cursor(&outbox, &one).await.paused, None);
        let pause = settlement(None, [], Then::Pause("too\0 many".to_owned()));
        assert_eq!(settle(&outbox, &one, &pause).await, Owned::Yes);
        let paused = cursor(&outbox, &one).await.paused;
        assert_eq!(paused.as_deref(), Some("too many"));
        assert_eq!(row(&outbox).await["paused_by"], "sinks");
        outbox
            .run("update {s}.outbox_cursors set paused_at = null")
            .await;
        assert_eq!(cursor(&outbox, &one).await.paused, None);
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_is_over_is_none() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let failure = Failure {
            retry_in: Duration::ZERO,
            ..failure(None)
        };
        assert_eq!(back_off(&outbox, &one, failure).await, Owned::Yes);
        sleep(Duration::from_millis(5)).await;
        let cursor = cursor(&outbox, &one).await;
        assert_eq!((cursor.attempts, cursor.retry_in), (3, None));
    })
    .await;
}

/// A23.
#[tokio::test]
async fn a_cursor_from_another_cluster_is_known_as_such() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        assert_eq!(cursor(&outbox, &one).await.origin, Origin::Here);
        outbox
            .run("update {s}.outbox_cursors set system_identifier = 1")
            .await;
        assert_eq!(cursor(&outbox, &one).await.origin, Origin::OtherCluster);
    })
    .await;
}

/// A23: a dump restored into a younger cluster brings events that nobody would read.
#[tokio::test]
async fn events_that_came_with_a_dump_are_known_as_such() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        outbox.publish_subjects(0..3).await;
        assert_eq!(cursor(&outbox, &one).await.origin, Origin::Here);
        let foreign =
            "insert into {s}.outbox (txid, topic, payload) values ('9000000000', 'a.b', '{}')";
        outbox.run(foreign).await;
        assert_eq!(cursor(&outbox, &one).await.origin, Origin::ForeignEvents);
    })
    .await;
}

/// A23: a database that lost its last commits gives their transaction ids out again.
#[tokio::test]
async fn a_cursor_beyond_the_horizon_is_refused_until_a_seek_also_when_the_ids_catch_up() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        let one = hold(&outbox, "one").await;
        let published = outbox.publish_subjects(0..3).await;
        let head = outbox.head_after(published[2].position).await;
        assert_eq!(go(&outbox, &one, head.end()).await, Owned::Yes);
        assert_eq!(cursor(&outbox, &one).await.origin, Origin::Here);
        outbox
            .run(
                "update {s}.outbox_cursors set seq = 7,
                     txid = (pg_snapshot_xmax(pg_current_snapshot())::text::int8 + 50)::text::xid8",
            )
            .await;
        let beyond = cursor(&outbox, &one).await;
        assert_eq!(beyond.origin, Origin::BeyondHorizon);

        while database.head().await.unwrap().horizon <= beyond.position.txid {
            outbox.publish_subjects(0..2).await;
        }
        let two = lease(&outbox, "two").await;
        for _ in 0..2 {
            assert_eq!(cursor(&outbox, &two).await, beyond, "it stays so");
        }
        let nothing = database.prune(Duration::ZERO, Position::BEGINNING).await;
        assert_eq!(nothing.unwrap().rows, 0);
        assert!(database.retention_hold().await.unwrap().unwrap().strange);

        let back = SeekTarget::Position(published[2].position);
        database.seek("a", back, "jo", false).await.unwrap();
        let found = cursor(&outbox, &two).await;
        assert_eq!(
            (found.origin, found.position),
            (Origin::Here, published[2].position)
        );
        let pruned = database.prune(Duration::ZERO, Position::BEGINNING).await;
        assert_eq!(pruned.unwrap().rows, 3);
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
        let claim = database.claim("a", &one, start).await.unwrap();
        assert_eq!(claim.unwrap().position, start);
        assert_eq!(back_off(&outbox, &one, failure(None)).await, Owned::Yes);
        let status = database.cursors().await.unwrap().remove(0);
        assert_eq!((status.sink.as_str(), status.position), ("a", start));
        assert_eq!(status.holder.as_deref(), Some("one"));
        assert_eq!((status.lag, status.attempts), (20, 3));
        assert!(status.lag_age.unwrap() >= Duration::from_millis(10));
        assert!(status.retry_in.is_some());

        database.release_lease(&one).await.unwrap();
        let end = published[24].position;
        let saved = go(&outbox, &one, end).await;
        assert_eq!(saved, Owned::Yes, "the token is what counts");
        let status = database.cursors().await.unwrap().remove(0);
        assert_eq!((status.holder, status.lag, status.lag_age), (None, 0, None));
        assert_eq!(status.retry_in, None);
    })
    .await;
}
