//! Pausing, resuming and forgetting a sink, and the record that is kept of it.

use outbox::{Lease, OperateError, Owned, Paused, Position, Resumed, Then};
use serde_json::Value;
use sqlx::Connection;

use crate::fixture::{Outbox, on_each_postgres};
use crate::holding::{back_off, claim, cursor, failure, go, hold, row, settle, settlement};

/// What was ordered, oldest first: the command, the sink, by whom, the particulars.
pub(crate) async fn record(outbox: &Outbox) -> Vec<(String, Option<String>, String, Value)> {
    let mut operations = outbox.database.operations(100).await.unwrap();
    operations.reverse();
    let rows = operations.into_iter().map(|one| {
        let details = serde_json::from_str(&one.details).unwrap();
        assert!(one.at.ends_with('Z'), "{}", one.at);
        (one.command, one.sink, one.by, details)
    });
    rows.collect()
}

async fn paused(outbox: &Outbox, lease: &Lease) -> Option<String> {
    cursor(outbox, lease).await.paused
}

#[tokio::test]
async fn a_pause_is_found_by_whoever_claims_the_cursor_until_it_is_resumed() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        let one = hold(&outbox, "one").await;
        assert_eq!(paused(&outbox, &one).await, None);
        let ordered = database.pause("a", Some("rebuild"), "jo@desk").await;
        assert!(matches!(ordered.unwrap(), Paused::Ordered(_)));
        assert_eq!(paused(&outbox, &one).await.as_deref(), Some("rebuild"));

        let again = database.pause("a", None, "max@desk").await.unwrap();
        let Paused::Already(pause) = again else {
            panic!("{again:?}");
        };
        assert_eq!(
            (pause.by.as_str(), pause.reason.as_deref()),
            ("jo@desk", Some("rebuild"))
        );

        let resumed = database.resume("a", "max@desk").await.unwrap();
        let Resumed::Ordered { pause: was, .. } = resumed else {
            panic!("{resumed:?}");
        };
        assert_eq!(was.unwrap().by, "jo@desk");
        assert_eq!(paused(&outbox, &one).await, None);
        assert!(!row(&outbox).await["resumed_at"].is_null());
        let nothing = database.resume("a", "max@desk").await.unwrap();
        assert_eq!(nothing, Resumed::Nothing);

        let expected = [
            ("pause", "jo@desk", serde_json::json!({"reason": "rebuild"})),
            (
                "resume",
                "max@desk",
                serde_json::json!({"reason": "rebuild", "was_paused": true}),
            ),
        ];
        let expected = expected.map(|(command, by, details)| {
            (
                command.to_owned(),
                Some("a".to_owned()),
                by.to_owned(),
                details,
            )
        });
        assert_eq!(record(&outbox).await, expected);
    })
    .await;
}

#[tokio::test]
async fn a_resumed_sink_tries_again_at_once_and_keeps_its_suspicion() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let suspect = crate::holding::suspect(Position::new(5, 1), outbox::Stage::Alone);
        let noted = back_off(&outbox, &one, failure(Some(suspect.clone()))).await;
        assert_eq!(noted, Owned::Yes);
        let resumed = outbox.database.resume("a", "jo").await.unwrap();
        assert!(matches!(resumed, Resumed::Ordered { pause: None, .. }));
        let found = cursor(&outbox, &one).await;
        assert_eq!((found.attempts, found.retry_in), (0, None));
        assert_eq!(found.suspect, Some(suspect));
    })
    .await;
}

#[tokio::test]
async fn what_the_fuse_paused_an_operator_resumes() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let pause = Then::Pause("too many dead letters".to_owned());
        let settled = settle(&outbox, &one, &settlement(None, [], pause)).await;
        assert_eq!(settled, Owned::Yes);
        let resumed = outbox.database.resume("a", "jo").await.unwrap();
        let Resumed::Ordered { pause, .. } = resumed else {
            panic!("{resumed:?}");
        };
        assert_eq!(pause.unwrap().by, "sinks");
    })
    .await;
}

#[tokio::test]
async fn an_order_counts_as_obeyed_once_the_cursor_was_claimed_again() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        assert_eq!(database.obedience("a").await.unwrap(), None);
        let one = hold(&outbox, "one").await;
        let Paused::Ordered(id) = database.pause("a", None, "jo").await.unwrap() else {
            panic!("it was not paused");
        };
        assert_eq!(database.head().await.unwrap().operation, id);
        let seen = database.obedience("a").await.unwrap().unwrap();
        assert!(seen.operation < id);
        assert_eq!(seen.holder.as_deref(), Some("one"));
        assert_eq!(go(&outbox, &one, Position::new(1, 1)).await, Owned::Yes);
        let seen = database.obedience("a").await.unwrap().unwrap();
        assert!(
            seen.operation < id,
            "a late write of a delivery is no obedience"
        );
        claim(&outbox, &one).await.unwrap();
        let seen = database.obedience("a").await.unwrap().unwrap();
        assert_eq!(seen.operation, id);
        database.release_lease(&one).await.unwrap();
        let seen = database.obedience("a").await.unwrap().unwrap();
        assert_eq!(seen.holder, None);
    })
    .await;
}

#[tokio::test]
async fn a_sink_without_a_cursor_can_neither_be_paused_nor_resumed_nor_forgotten() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        let refused = [
            database.pause("b", None, "jo").await.err(),
            database.resume("b", "jo").await.err(),
            database.forget("b", "jo", false).await.err(),
        ];
        for error in refused {
            assert!(
                matches!(error, Some(OperateError::NoCursor(_))),
                "{error:?}"
            );
        }
        assert_eq!(record(&outbox).await, []);
        // A refusal leaves no connection in a transaction.
        assert_eq!(open_transactions(&outbox).await, 0);
    })
    .await;
}

async fn open_transactions(outbox: &Outbox) -> i64 {
    let mut connection = outbox.application().await;
    let sql = "select count(*) from pg_stat_activity
               where datname = current_database() and state like 'idle in transaction%'";
    sqlx::query_scalar(sql)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_forgotten_sink_has_no_cursor_and_keeps_its_dead_letters_and_its_tokens() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        let published = outbox.publish_subjects(0..2).await;
        outbox.head_after(published[1].position).await;
        let one = hold(&outbox, "one").await;
        let dead = crate::holding::dead_letter(published[0].position);
        let done = settlement(published[0].position, [dead], Then::Go);
        assert_eq!(settle(&outbox, &one, &done).await, Owned::Yes);

        let refused = database.forget("a", "jo", false).await.unwrap_err();
        let told = refused.to_string();
        assert!(told.contains("a (by one)"), "{told}");
        database.release_lease(&one).await.unwrap();
        let planned = database.forget("a", "jo", true).await.unwrap();
        assert_eq!(
            (planned.operation, planned.position),
            (None, published[0].position)
        );
        assert!(
            database.obedience("a").await.unwrap().is_some(),
            "a dry run"
        );
        assert_eq!(record(&outbox).await, []);

        database.forget("a", "jo", false).await.unwrap();
        assert_eq!(database.obedience("a").await.unwrap(), None);
        assert_eq!(crate::holding::dead_letters(&outbox).await.len(), 1);
        assert_eq!(record(&outbox).await[0].0, "forget");
        let two = hold(&outbox, "two").await;
        assert!(two.token > one.token);
        assert_eq!(cursor(&outbox, &two).await.position, Position::BEGINNING);
    })
    .await;
}

/// A worker that takes the lease meanwhile gets a new cursor, and never loses one.
#[tokio::test]
async fn a_worker_that_comes_while_a_sink_is_forgotten_waits_and_begins_anew() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let published = outbox.publish_subjects(0..1).await;
        outbox.head_after(published[0].position).await;
        assert_eq!(go(&outbox, &one, published[0].position).await, Owned::Yes);
        outbox.database.release_lease(&one).await.unwrap();

        // The record is locked, so that the order stops at its last step.
        let mut other = outbox.application().await;
        let mut blocking = other.begin().await.unwrap();
        let lock = outbox.sql("lock table {s}.outbox_operations in share row exclusive mode");
        sqlx::raw_sql(lock).execute(&mut *blocking).await.unwrap();
        let forgetting = outbox.database.forget("a", "jo", false);
        let coming = async {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            let two = crate::holding::lease(&outbox, "two").await;
            let (claimed, ()) = tokio::join!(claim(&outbox, &two), async {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                blocking.rollback().await.unwrap();
            });
            claimed.unwrap()
        };
        let (forgotten, claimed) = tokio::join!(forgetting, coming);
        forgotten.unwrap();
        assert_eq!(claimed.position, Position::BEGINNING);
        assert!(outbox.database.obedience("a").await.unwrap().is_some());
    })
    .await;
}

/// A worker that has looked at the cursor already when a sink is forgotten loses none
/// either: whoever comes first is seen by the other.
#[tokio::test]
async fn a_cursor_that_is_being_forgotten_is_not_claimed_in_between() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        outbox.database.release_lease(&one).await.unwrap();
        let two = Lease {
            holder: "two".to_owned(),
            token: one.token + 1,
            ..one
        };
        // So that the order stops where it looks for a holder.
        let mut other = outbox.application().await;
        let mut blocking = other.begin().await.unwrap();
        let lock = outbox.sql("lock table {s}.leases in access exclusive mode");
        sqlx::raw_sql(lock).execute(&mut *blocking).await.unwrap();
        let pause = || tokio::time::sleep(std::time::Duration::from_millis(200));
        let claiming = async {
            pause().await;
            claim(&outbox, &two).await.unwrap()
        };
        let unblocking = async {
            pause().await;
            pause().await;
            blocking.rollback().await.unwrap();
        };
        let forgetting = outbox.database.forget("a", "jo", false);
        let (forgotten, _, ()) = tokio::join!(forgetting, claiming, unblocking);
        forgotten.unwrap();
        assert!(outbox.database.obedience("a").await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn orders_appear_in_the_record_in_the_order_of_their_commits() {
    on_each_postgres(async |outbox| {
        let mut early = outbox.application().await;
        let mut first = early.begin().await.unwrap();
        let order = "select {s}.outbox_record('seek', null, 'jo', '{}')";
        let (id,): (i64,) = sqlx::query_as(outbox.sql(order))
            .fetch_one(&mut *first)
            .await
            .unwrap();
        hold(&outbox, "one").await;
        let (second, ()) = tokio::join!(outbox.database.pause("a", None, "jo"), async {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            assert_eq!(outbox.database.head().await.unwrap().operation, 0);
            first.commit().await.unwrap();
        });
        assert_eq!(second.unwrap(), Paused::Ordered(id + 1));
    })
    .await;
}
