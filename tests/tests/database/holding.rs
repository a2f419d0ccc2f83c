//! A holder of sink `a`'s lease, and what its cursor and its dead letters look like.

use std::time::Duration;

use outbox::{
    Cursor, DeadLetter, Event, Failure, Lease, Mark, Owned, Position, Settlement, Stage, Suspect,
    Then, sink_lease,
};
use serde_json::Value;

use crate::fixture::Outbox;

pub(crate) const TTL: Duration = Duration::from_secs(60);

/// Takes the lease of sink `a`, whoever has it.
pub(crate) async fn lease(outbox: &Outbox, holder: &str) -> Lease {
    outbox
        .run("update {s}.leases set expires_at = {s}.compute_now()")
        .await;
    let taken = outbox
        .database
        .acquire_lease(&sink_lease("a"), holder, TTL)
        .await;
    taken.unwrap().unwrap()
}

pub(crate) async fn claim(outbox: &Outbox, lease: &Lease) -> Option<Cursor> {
    let claim = outbox.database.claim("a", lease, Position::BEGINNING).await;
    claim.unwrap()
}

/// Takes the lease and claims the cursor.
pub(crate) async fn hold(outbox: &Outbox, holder: &str) -> Lease {
    let lease = lease(outbox, holder).await;
    claim(outbox, &lease).await.unwrap();
    lease
}

/// The cursor as its holder finds it.
pub(crate) async fn cursor(outbox: &Outbox, lease: &Lease) -> Cursor {
    claim(outbox, lease).await.expect("the lease is the newest")
}

pub(crate) async fn settle(outbox: &Outbox, lease: &Lease, settlement: &Settlement) -> Owned {
    let settled = outbox.database.settle("a", lease, settlement).await;
    settled.unwrap()
}

/// Settles all up to a position, and nothing more.
pub(crate) async fn go(outbox: &Outbox, lease: &Lease, up_to: Position) -> Owned {
    settle(outbox, lease, &settlement(up_to, [], Then::Go)).await
}

/// Backs off where the cursor is.
pub(crate) async fn back_off(outbox: &Outbox, lease: &Lease, failure: Failure) -> Owned {
    settle(outbox, lease, &settlement(None, [], Then::BackOff(failure))).await
}

pub(crate) async fn mark(outbox: &Outbox, lease: &Lease, mark: &Mark) -> Owned {
    outbox.database.mark("a", lease, mark).await.unwrap()
}

pub(crate) fn settlement(
    up_to: impl Into<Option<Position>>,
    dead_letters: impl Into<Vec<DeadLetter>>,
    then: Then,
) -> Settlement {
    Settlement {
        delivered: None,
        up_to: up_to.into(),
        dead_letters: dead_letters.into(),
        then,
    }
}

pub(crate) fn failure(suspect: Option<Suspect>) -> Failure {
    Failure {
        attempts: 3,
        retry_in: TTL,
        kind: "unavailable",
        error: "no\0 answer".to_owned(),
        suspect,
    }
}

pub(crate) fn suspect(position: Position, stage: Stage) -> Suspect {
    Suspect {
        position,
        attempts: 4,
        stage,
        code: "REFUSED".to_owned(),
        error: "it is too green".to_owned(),
    }
}

/// The dead letter of an event with its seq as its id.
pub(crate) fn dead_letter(position: Position) -> DeadLetter {
    let payload = format!(r#"{{"id":"evt_{}","type":"a.b"}}"#, position.seq);
    DeadLetter {
        event: Event::new(position, "a.b", payload),
        code: "REFUSED".to_owned(),
        error: "it is too green".to_owned(),
        attempts: 5,
    }
}

/// The row of sink `a`'s cursor.
pub(crate) async fn row(outbox: &Outbox) -> Value {
    let mut rows = rows(
        outbox,
        "select to_jsonb(c)::text from {s}.outbox_cursors as c",
    )
    .await;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// The columns of the cursor's row that hold something among these.
pub(crate) async fn filled<'c>(outbox: &Outbox, columns: &[&'c str]) -> Vec<&'c str> {
    let row = row(outbox).await;
    let filled = columns.iter().filter(|column| !row[**column].is_null());
    filled.copied().collect()
}

/// The rows of the dead letters, in order.
pub(crate) async fn dead_letters(outbox: &Outbox) -> Vec<Value> {
    let sql = "select to_jsonb(l)::text from {s}.outbox_dead_letters as l order by txid, seq";
    rows(outbox, sql).await
}

/// A column of every row.
pub(crate) fn column<'r>(rows: &'r [Value], name: &str) -> Vec<&'r str> {
    let values = rows.iter().map(|row| row[name].as_str().unwrap());
    values.collect()
}

async fn rows(outbox: &Outbox, sql: &str) -> Vec<Value> {
    let mut connection = outbox.application().await;
    let rows: Vec<(String,)> = sqlx::query_as(outbox.sql(sql))
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let rows = rows.iter().map(|(row,)| serde_json::from_str(row).unwrap());
    rows.collect()
}
