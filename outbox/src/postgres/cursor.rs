//! Claiming a sink's cursor: from then on no earlier holder can write it.
//!
//! The fence is on the row itself (OB-3): a claim stamps the row with its lease's
//! token, and a write under another token changes nothing, however late it arrives.
//! A seek that an operator ordered is carried out here and nowhere else, so a cursor
//! never has two writers, and nothing but a recorded command moves it back (OB-2).

use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection, Row};

use super::database::Database;
use super::error::DatabaseError;
use super::lease::{Lease, seconds_left};
use super::schema::Schema;
use super::settlement::{Cursor, Origin, Stage, Suspect};
use crate::{Flow, Position, Txid};

/// The consumer's name of a sink's cursor.
pub(super) fn consumer(sink: &str) -> String {
    format!("sink:{sink}")
}

/// Obeys an operator's order. What was known of the events at the old position has
/// no meaning at the new one, and the position is this cluster's from now on.
const SEEK: &str = "\
update {schema}.outbox_cursors
set token = $2, txid = seek_txid, seq = seek_seq, system_identifier = default,
    generation = greatest(generation + 1,
        (extract(epoch from {schema}.compute_now()) * 1000000)::bigint),
    delivered_txid = null, delivered_seq = null, marked_txid = null, marked_seq = null,
    attempts = default, next_retry_at = null, last_error_kind = null, last_error = null,
    suspect_txid = null, suspect_seq = null, suspect_attempts = null, suspect_since = null,
    suspect_stage = null, suspect_code = null, suspect_error = null,
    probe_txid = null, probe_seq = null,
    in_hand_txid = null, in_hand_seq = null, delivering = default,
    hunt_txid = null, hunt_seq = null, seek_txid = null, seek_seq = null,
    moved_at = {schema}.compute_now()
where stream = 'outbox' and consumer = $1 and token <= $2 and seek_txid is not null";

/// A row that is visible belongs to a transaction that has ended, and those are below
/// the snapshot's end: one at or above it was not written in this cluster.
const CLAIM: &str = "\
insert into {schema}.outbox_cursors as kept (stream, consumer, txid, seq, token, obeyed)
select 'outbox', $1, $3, $4, $2, coalesce(max(id), 0) from {schema}.outbox_operations
on conflict (stream, consumer) do update
set token = excluded.token, obeyed = excluded.obeyed
where kept.token <= excluded.token
returning txid, seq,
    system_identifier not in (0, (pg_control_system()).system_identifier) as other_cluster,
    system_identifier = 0 as beyond_horizon,
    exists (
        select from {schema}.outbox where txid >= pg_snapshot_xmax(pg_current_snapshot())
    ) as foreign_events,
    (pg_control_system()).system_identifier || '/' || (
        select oid from pg_database where datname = current_database()
    ) || '/' || kept.tableoid as origin,
    generation, delivered_txid, delivered_seq, marked_txid, marked_seq, xmax = 0 as made,
    attempts, extract(epoch from next_retry_at - {schema}.compute_now())::float8 as wait,
    case when paused_at is not null then coalesce(pause_reason, '') end as paused,
    suspect_txid, suspect_seq, suspect_attempts, suspect_stage, suspect_code, suspect_error,
    probe_txid, probe_seq, in_hand_txid, in_hand_seq, delivering, hunt_txid, hunt_seq,
    exists (
        select from {schema}.outbox_dead_letters where sink = $5 and state = 'replaying'
    ) as replays";

/// A cursor beyond the horizon belongs to no history that this database knows, and that
/// is written down in place of the cluster: the horizon passes it sooner or later, and
/// then nothing else would tell. Asked with the row locked, and in a statement of its own:
/// the claim may have waited for a settlement that saw a later horizon than the claim did.
const BEYOND: &str = "\
update {schema}.outbox_cursors set system_identifier = 0
where stream = 'outbox' and consumer = $1 and token = $2
    and system_identifier = (pg_control_system()).system_identifier
    and txid >= pg_snapshot_xmin(pg_current_snapshot())";

/// A cursor that was made anew begins after the last one was forgotten. Asked in a statement
/// of its own: the claim may have waited for that very order without seeing it.
const BEGIN_ANEW: &str = "\
update {schema}.outbox_cursors set generation = coalesce((
    select (extract(epoch from max(at)) * 1000000)::bigint from {schema}.outbox_operations
    where sink = $3 and command = 'forget'
), 0)
where stream = 'outbox' and consumer = $1 and token = $2
returning generation";

/// That a delivery was never settled is told to one holder, who takes it for a death of
/// the last one: told again, it would count twice.
const TOLD: &str = "\
update {schema}.outbox_cursors set delivering = false
where stream = 'outbox' and consumer = $1 and token = $2";

impl Database {
    /// Takes a sink's cursor over for a lease, carries out a seek that was ordered, and
    /// creates the cursor at `start` if there is none. `None` if a newer lease has it.
    ///
    /// # Errors
    /// [`DatabaseError`]. All was carried out or nothing; it is right to claim again.
    pub async fn claim(
        &self,
        sink: &str,
        lease: &Lease,
        start: Position,
    ) -> Result<Option<Cursor>, DatabaseError> {
        let mut checkout = self.checkout().await?;
        let claimed = self
            .within(claim(&mut checkout, self.schema(), sink, lease, start))
            .await
            .map_err(|error| error.while_doing("claim a cursor"))?;
        checkout.release();
        Ok(claimed)
    }
}

async fn claim(
    connection: &mut PgConnection,
    schema: &Schema,
    sink: &str,
    lease: &Lease,
    start: Position,
) -> Result<Option<Cursor>, sqlx::Error> {
    let ours = |statement| {
        let query = sqlx::query(schema.sql(statement));
        query.bind(consumer(sink)).bind(lease.token)
    };
    let mut transaction = connection.begin().await?;
    ours(SEEK).execute(&mut *transaction).await?;
    let row = ours(CLAIM)
        .bind(start.txid)
        .bind(start.seq)
        .bind(sink)
        .fetch_optional(&mut *transaction)
        .await?;
    let mut claimed = row.as_ref().map(cursor).transpose()?;
    if let (Some(cursor), Some(row)) = (&mut claimed, &row) {
        if row.try_get("made")? {
            let begun = ours(BEGIN_ANEW)
                .bind(sink)
                .fetch_one(&mut *transaction)
                .await?;
            cursor.flow = Flow::new(cursor.flow.origin(), begun.try_get("generation")?);
        }
        if ours(BEYOND)
            .execute(&mut *transaction)
            .await?
            .rows_affected()
            > 0
        {
            cursor.origin = Origin::BeyondHorizon;
        }
        if cursor.delivering {
            ours(TOLD).execute(&mut *transaction).await?;
        }
    }
    transaction.commit().await?;
    Ok(claimed)
}

fn cursor(row: &PgRow) -> Result<Cursor, sqlx::Error> {
    let origin = if row.try_get("other_cluster")? {
        Origin::OtherCluster
    } else if row.try_get("foreign_events")? {
        Origin::ForeignEvents
    } else if row.try_get("beyond_horizon")? {
        Origin::BeyondHorizon
    } else {
        Origin::Here
    };
    let wait: Option<f64> = row.try_get("wait")?;
    Ok(Cursor {
        position: Position {
            txid: row.try_get("txid")?,
            seq: row.try_get("seq")?,
        },
        delivered: position(row, "delivered_txid", "delivered_seq")?,
        marked: position(row, "marked_txid", "marked_seq")?,
        flow: Flow::new(
            row.try_get::<String, _>("origin")?,
            row.try_get("generation")?,
        ),
        origin,
        attempts: count(row.try_get("attempts")?),
        retry_in: wait.and_then(seconds_left),
        paused: row.try_get("paused")?,
        suspect: suspect(row)?,
        in_hand: position(row, "in_hand_txid", "in_hand_seq")?,
        delivering: row.try_get("delivering")?,
        hunt: position(row, "hunt_txid", "hunt_seq")?,
        replays: row.try_get("replays")?,
    })
}

pub(super) fn suspect(row: &PgRow) -> Result<Option<Suspect>, sqlx::Error> {
    let Some(at) = position(row, "suspect_txid", "suspect_seq")? else {
        return Ok(None);
    };
    let stage: Option<&str> = row.try_get("suspect_stage")?;
    let probe = position(row, "probe_txid", "probe_seq")?;
    let text = |column| {
        let text: Option<String> = row.try_get(column)?;
        Ok::<_, sqlx::Error>(text.unwrap_or_default())
    };
    Ok(Some(Suspect {
        position: at,
        attempts: count(
            row.try_get::<Option<_>, _>("suspect_attempts")?
                .unwrap_or(0),
        ),
        stage: match (stage, probe) {
            (Some("probing"), Some(probe)) => Stage::Probing(probe),
            (Some("comparing"), _) => Stage::Comparing,
            (Some("confirming"), _) => Stage::Confirming,
            _ => Stage::Alone,
        },
        code: text("suspect_code")?,
        error: text("suspect_error")?,
    }))
}

pub(super) fn position(
    row: &PgRow,
    txid: &str,
    seq: &str,
) -> Result<Option<Position>, sqlx::Error> {
    let txid: Option<Txid> = row.try_get(txid)?;
    let seq: Option<i64> = row.try_get(seq)?;
    Ok(txid.zip(seq).map(|(txid, seq)| Position { txid, seq }))
}

fn count(kept: i32) -> u32 {
    u32::try_from(kept).unwrap_or(0)
}
