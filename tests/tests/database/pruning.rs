//! Retention: what every cursor has passed and what is old goes, and nothing else.

use std::time::Duration;

use outbox::{Owned, Position, Prunable, Pruned};
use sqlx::Connection;

use crate::fixture::{Outbox, event, on_each_postgres};
use crate::holding::{back_off, failure, go, hold};

const NO_AGE: Duration = Duration::ZERO;
const HOUR: Duration = Duration::from_secs(3_600);

async fn prune(outbox: &Outbox, min_age: Duration) -> Pruned {
    let pruned = outbox.database.prune(min_age, Position::BEGINNING).await;
    pruned.unwrap()
}

async fn rows(outbox: &Outbox) -> i64 {
    let mut connection = outbox.application().await;
    let sql = outbox.sql("select count(*) from {s}.outbox");
    let (rows,): (i64,) = sqlx::query_as(sql)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    rows
}

const NOTHING: Pruned = Pruned {
    rows: 0,
    next: None,
};

fn deleted(rows: u64) -> Pruned {
    Pruned { rows, next: None }
}

#[tokio::test]
async fn what_every_cursor_has_passed_goes_once_it_is_old() {
    on_each_postgres(async |outbox| {
        let prunable = async |min_age| outbox.database.prunable(min_age).await.unwrap();
        let published = outbox.publish_subjects(0..10).await;
        outbox.head_after(published[9].position).await;
        let one = hold(&outbox, "one").await;
        assert_eq!(prune(&outbox, NO_AGE).await, NOTHING, "nothing is passed");
        assert_eq!(go(&outbox, &one, published[6].position).await, Owned::Yes);
        assert_eq!(prune(&outbox, HOUR).await, NOTHING, "nothing is old");
        outbox
            .run("update {s}.outbox set created_at = now() - interval '2 h' where seq % 2 = 0")
            .await;
        let old = published[..=6]
            .iter()
            .filter(|event| event.position.seq % 2 == 0)
            .count();
        let old = u64::try_from(old).unwrap();
        let expected = |rows| Prunable { rows, more: false };
        assert_eq!(prunable(HOUR).await, expected(old));
        assert_eq!(prunable(NO_AGE).await, expected(7));
        assert_eq!(prune(&outbox, HOUR).await, deleted(old));
        assert_eq!(prune(&outbox, HOUR).await, NOTHING);
        assert_eq!(prune(&outbox, NO_AGE).await, deleted(7 - old));
        assert_eq!(prunable(NO_AGE).await, expected(0));
        assert_eq!(rows(&outbox).await, 3);
    })
    .await;
}

/// A2: `created_at` is older than the retention age when the transaction commits.
#[tokio::test]
async fn a_late_commit_stays_until_it_was_delivered() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let mut application = outbox.application().await;
        let mut late = application.begin().await.unwrap();
        let published = outbox
            .publisher()
            .publish(&mut late, event("late"))
            .await
            .unwrap();
        sqlx::raw_sql(outbox.sql("update {s}.outbox set created_at = now() - interval '2 h'"))
            .execute(&mut *late)
            .await
            .unwrap();
        let early = outbox.publish_subjects(0..3).await;
        // As far as anybody can read now.
        let end = outbox.database.head().await.unwrap().end();
        assert!(end < published.position && published.position < early[0].position);
        assert_eq!(go(&outbox, &one, end).await, Owned::Yes);
        assert_eq!(prune(&outbox, HOUR).await, NOTHING);
        late.commit().await.unwrap();
        outbox.head_after(early[2].position).await;
        assert_eq!(prune(&outbox, HOUR).await, NOTHING);
        let before = Position {
            seq: published.position.seq - 1,
            ..published.position
        };
        assert_eq!(go(&outbox, &one, before).await, Owned::Yes);
        assert_eq!(prune(&outbox, HOUR).await, NOTHING);
        assert_eq!(go(&outbox, &one, published.position).await, Owned::Yes);
        assert_eq!(prune(&outbox, HOUR).await, deleted(1));
        assert_eq!(rows(&outbox).await, 3);
    })
    .await;
}

/// H21: whatever its sink is about, a cursor holds what it has not passed.
#[tokio::test]
async fn a_stopped_sinks_cursor_holds_what_it_has_not_passed() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish_subjects(0..10).await;
        outbox.head_after(published[9].position).await;
        let one = hold(&outbox, "one").await;
        assert_eq!(go(&outbox, &one, published[9].position).await, Owned::Yes);
        let behind = published[3].position;
        outbox
            .run(&format!(
                "insert into {{s}}.outbox_cursors (stream, consumer, txid, seq, token, paused_at)
                     values ('outbox', 'somebody else''s', '{}', {}, 1, now());
                 insert into {{s}}.outbox_cursors (stream, consumer, txid, seq, token)
                     values ('another', 'sink:a', '0', 0, 1)",
                behind.txid, behind.seq
            ))
            .await;
        assert_eq!(prune(&outbox, NO_AGE).await, deleted(4));
        assert_eq!(prune(&outbox, NO_AGE).await, NOTHING);
        assert_eq!(back_off(&outbox, &one, failure(None)).await, Owned::Yes);
        outbox
            .run("delete from {s}.outbox_cursors where consumer = 'somebody else''s'")
            .await;
        assert_eq!(prune(&outbox, NO_AGE).await, deleted(6));
    })
    .await;
}

#[tokio::test]
async fn a_seek_that_is_not_carried_out_yet_holds_what_it_will_need() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish_subjects(0..10).await;
        outbox.head_after(published[9].position).await;
        let one = hold(&outbox, "one").await;
        assert_eq!(go(&outbox, &one, published[9].position).await, Owned::Yes);
        let sought = published[3].position;
        let seek = format!(
            "update {{s}}.outbox_cursors set seek_txid = '{}', seek_seq = {}",
            sought.txid, sought.seq
        );
        outbox.run(&seek).await;
        assert_eq!(prune(&outbox, NO_AGE).await, deleted(4));
        assert_eq!(rows(&outbox).await, 6);
    })
    .await;
}

/// A23, and a start before any sink has one.
#[tokio::test]
async fn nothing_goes_where_positions_cannot_be_trusted() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish_subjects(0..10).await;
        outbox.head_after(published[9].position).await;
        assert_eq!(prune(&outbox, NO_AGE).await, NOTHING, "no cursor");
        let one = hold(&outbox, "one").await;
        assert_eq!(go(&outbox, &one, published[9].position).await, Owned::Yes);
        let foreign = "insert into {s}.outbox_cursors
                (stream, consumer, txid, seq, token, system_identifier)
            select stream, 'b', txid, seq, 1, 1 from {s}.outbox_cursors";
        let ahead = "insert into {s}.outbox_cursors (stream, consumer, txid, seq, token)
            values ('outbox', 'b', '9000000000', 1, 1)";
        let dumped =
            "insert into {s}.outbox (txid, topic, payload) values ('9000000000', 'a.b', '{}')";
        for (what, repair) in [
            (
                foreign,
                "delete from {s}.outbox_cursors where consumer = 'b'",
            ),
            (ahead, "delete from {s}.outbox_cursors where consumer = 'b'"),
            (dumped, "delete from {s}.outbox where txid = '9000000000'"),
        ] {
            outbox.run(what).await;
            assert_eq!(prune(&outbox, NO_AGE).await, NOTHING, "{what}");
            outbox.run(repair).await;
        }
        assert_eq!(prune(&outbox, NO_AGE).await, deleted(10));
    })
    .await;
}

/// C12.
#[tokio::test]
async fn a_time_that_is_no_time_is_old() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish_subjects(0..3).await;
        outbox
            .run(
                "update {s}.outbox set created_at = 'infinity' where seq = 1;
                 update {s}.outbox set created_at = '-infinity' where seq = 2",
            )
            .await;
        outbox.head_after_now().await;
        let one = hold(&outbox, "one").await;
        assert_eq!(go(&outbox, &one, published[2].position).await, Owned::Yes);
        assert_eq!(prune(&outbox, HOUR).await, deleted(2));
        assert_eq!(prune(&outbox, Duration::MAX).await, NOTHING);
    })
    .await;
}

#[tokio::test]
async fn a_long_backlog_goes_step_by_step() {
    on_each_postgres(async |outbox| {
        outbox
            .run(
                "insert into {s}.outbox (topic, payload, created_at)
                 select 'a.b', '{}', now() - case when n <= 11000 then '2 h' else '0 h' end::interval
                 from generate_series(1, 22000) as n",
            )
            .await;
        let end = outbox.head_after_now().await.end();
        let one = hold(&outbox, "one").await;
        assert_eq!(go(&outbox, &one, end).await, Owned::Yes);
        let (mut after, mut steps) = (Position::BEGINNING, Vec::new());
        loop {
            let step = outbox.database.prune(HOUR, after).await.unwrap();
            steps.push(step.rows);
            let Some(next) = step.next else { break };
            assert!(next > after);
            after = next;
        }
        assert_eq!(steps, [5_000, 5_000, 1_000, 0]);
        assert_eq!(rows(&outbox).await, 11_000, "a step that finds none is the last");
        // The next pass begins at the beginning again.
        for _ in 0..2 {
            assert_eq!(prune(&outbox, NO_AGE).await.rows, 5_000);
        }
        assert_eq!(prune(&outbox, NO_AGE).await, deleted(1_000));
    })
    .await;
}
