//! Writing what came of a delivery, and what is about to be delivered.
//!
//! A settlement is one transaction (OB-7), and one statement unless it has dead
//! letters or the destination keeps a position of its own. It is written under the
//! lease's token (OB-3), never moves a cursor back (OB-2), and not beyond the server's
//! horizon: what was read from there belongs to a history that the server has lost, as
//! after a crash that lost commits.
//!
//! If the row is locked, a statement waits and then looks at the row again: that is
//! what "read committed" promises, and the fence counts on it.

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Connection, PgConnection, Postgres};

use super::cursor::consumer;
use super::database::Database;
use super::dead_letters;
use super::error::DatabaseError;
use super::lease::{Lease, interval};
use super::schema::Schema;
use super::settlement::{Mark, Owned, Settlement, Stage, Suspect, Then};
use super::text::{code_text, error_text};
use crate::{Position, Txid};

/// The columns of a suspect, for one that is after the given place: else all null. It
/// is suspected since it first was.
macro_rules! suspect_after {
    ($place:literal) => {
        concat!(
            "(suspect_txid, suspect_seq, suspect_attempts, suspect_stage, suspect_code,
              suspect_error, probe_txid, probe_seq, suspect_since) = (
                 select $6, $7, $8, $9, $10, $11, $12, $13,
                     case when (kept.suspect_txid, kept.suspect_seq) = ($6, $7)
                         then kept.suspect_since else {schema}.compute_now() end
                 where ($6, $7) > (",
            $place,
            "))"
        )
    };
}

/// A settlement that writes some columns of its own. What the cursor has passed by
/// then is forgotten: a select without a row makes its columns null.
macro_rules! settlement {
    ($columns:expr) => {
        concat!(
            "update {schema}.outbox_cursors as kept
             set txid = coalesce($3, kept.txid), seq = coalesce($4, kept.seq),
             delivering = false,
             moved_at = case when ($3, $4) > (kept.txid, kept.seq)
                 then {schema}.compute_now() else kept.moved_at end,
             (in_hand_txid, in_hand_seq) = (
                 select kept.in_hand_txid, kept.in_hand_seq
                 where (kept.in_hand_txid, kept.in_hand_seq)
                     > (coalesce($3, kept.txid), coalesce($4, kept.seq))
             ),
             (hunt_txid, hunt_seq) = (
                 select kept.hunt_txid, kept.hunt_seq
                 where (kept.hunt_txid, kept.hunt_seq)
                     > (coalesce($3, kept.txid), coalesce($4, kept.seq))
             ), ",
            $columns,
            " where stream = 'outbox' and consumer = $1 and token = $2
                 and ($3 is null or (kept.txid, kept.seq) <= ($3, $4))
                 and ($5 is null or $5 < pg_snapshot_xmin(pg_current_snapshot()))"
        )
    };
}

/// What is suspected stays so until the cursor has passed it.
macro_rules! kept_suspect {
    () => {
        "(suspect_txid, suspect_seq, suspect_attempts, suspect_stage, suspect_code,
          suspect_error, probe_txid, probe_seq, suspect_since) = (
             select kept.suspect_txid, kept.suspect_seq, kept.suspect_attempts,
                 kept.suspect_stage, kept.suspect_code, kept.suspect_error, kept.probe_txid,
                 kept.probe_seq, kept.suspect_since
             where (kept.suspect_txid, kept.suspect_seq)
                 > (coalesce($3, kept.txid), coalesce($4, kept.seq))
         )"
    };
}

const GO: &str = settlement!(concat!(
    "attempts = 0, next_retry_at = null, last_error_kind = null, last_error = null, ",
    kept_suspect!()
));

const BACK_OFF: &str = settlement!(concat!(
    suspect_after!("coalesce($3, kept.txid), coalesce($4, kept.seq)"),
    ", attempts = $14, next_retry_at = {schema}.compute_now() + $15,
     last_error_kind = $16, last_error = $17"
));

const PAUSE: &str = settlement!(concat!(
    "paused_at = {schema}.compute_now(), paused_by = 'sinks', pause_reason = $6, ",
    kept_suspect!()
));

/// What a destination with a position of its own must have from now on.
const DELIVERED: &str = "\
update {schema}.outbox_cursors set delivered_txid = $3, delivered_seq = $4
where stream = 'outbox' and consumer = $1 and token = $2
    and (delivered_txid is null or (delivered_txid, delivered_seq) < ($3, $4))";

/// The connection flushes what it commits, and with it every commit before: what was read
/// may then be stored elsewhere for good. What was ever marked tells a destination that is
/// ahead of the cursor from one that is ahead of this database.
const MARK: &str = concat!(
    "update {schema}.outbox_cursors as kept
     set in_hand_txid = $3, in_hand_seq = $4, delivering = true,
     marked_txid = case when (kept.marked_txid, kept.marked_seq) > ($3, $4)
         then kept.marked_txid else $3 end,
     marked_seq = case when (kept.marked_txid, kept.marked_seq) > ($3, $4)
         then kept.marked_seq else $4 end,
     hunt_txid = $14, hunt_seq = $15, ",
    suspect_after!("kept.txid, kept.seq"),
    " where stream = 'outbox' and consumer = $1 and token = $2
         and (kept.txid, kept.seq) <= ($3, $4)
         and $5 < pg_snapshot_xmin(pg_current_snapshot())"
);

impl Database {
    /// Writes what came of a delivery: the cursor's move, the dead letters and what
    /// follows, all or nothing. Repeated after an answer that was lost, it changes
    /// nothing more: a dead letter is written only for an event that the cursor had not
    /// passed, and so not a second time, whatever became of it meanwhile.
    ///
    /// Nothing is written under another token, but also if the cursor is beyond
    /// `up_to` already, or if `up_to` or a dead letter is not below the server's
    /// horizon. Who claims the cursor again knows where it is.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn settle(
        &self,
        sink: &str,
        lease: &Lease,
        settlement: &Settlement,
    ) -> Result<Owned, DatabaseError> {
        let mut checkout = self.checkout().await?;
        let settled = self
            .within(settle(
                &mut checkout,
                self.schema(),
                sink,
                lease,
                settlement,
            ))
            .await
            .map_err(|error| error.while_doing("settle a delivery"))?;
        checkout.release();
        Ok(settled)
    }

    /// Writes down what is about to be delivered. What fences [`Database::settle`]
    /// fences this as well.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn mark(
        &self,
        sink: &str,
        lease: &Lease,
        mark: &Mark,
    ) -> Result<Owned, DatabaseError> {
        let query = sqlx::query(self.schema().sql(MARK))
            .bind(consumer(sink))
            .bind(lease.token)
            .bind(mark.end.txid)
            .bind(mark.end.seq)
            .bind(mark.end.txid);
        let query = bind_suspect(query, mark.suspect.as_ref())
            .bind(mark.hunt.map(|hunt| hunt.txid))
            .bind(mark.hunt.map(|hunt| hunt.seq));
        let mut checkout = self.checkout().await?;
        let done = self
            .within(query.execute(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("mark a delivery"))?;
        checkout.release();
        Ok(Owned::if_changed(&done))
    }
}

async fn settle(
    connection: &mut PgConnection,
    schema: &Schema,
    sink: &str,
    lease: &Lease,
    settlement: &Settlement,
) -> Result<Owned, sqlx::Error> {
    let update = update(schema, sink, lease, settlement);
    if settlement.dead_letters.is_empty() && settlement.delivered.is_none() {
        return Ok(Owned::if_changed(&update.execute(connection).await?));
    }
    let mut transaction = connection.begin().await?;
    // The lock keeps the position that the dead letters are judged by.
    let sql = schema.sql(
        "select from {schema}.outbox_cursors
         where stream = 'outbox' and consumer = $1 and token = $2 for update",
    );
    let lock = sqlx::query(sql).bind(consumer(sink)).bind(lease.token);
    let mut settled = Owned::No;
    if lock.fetch_optional(&mut *transaction).await?.is_some() {
        if !settlement.dead_letters.is_empty() {
            let insert = dead_letters::insert(schema, sink, &settlement.dead_letters);
            insert.execute(&mut *transaction).await?;
        }
        settled = Owned::if_changed(&update.execute(&mut *transaction).await?);
        if let Some(delivered) = settlement.delivered {
            let note = sqlx::query(schema.sql(DELIVERED));
            note.bind(consumer(sink))
                .bind(lease.token)
                .bind(delivered.txid)
                .bind(delivered.seq)
                .execute(&mut *transaction)
                .await?;
        }
    }
    match settled {
        Owned::Yes => transaction.commit().await?,
        Owned::No => transaction.rollback().await?,
    }
    Ok(settled)
}

/// The statement that moves the cursor.
fn update<'q>(
    schema: &Schema,
    sink: &str,
    lease: &Lease,
    settlement: &'q Settlement,
) -> Query<'q, Postgres, PgArguments> {
    let statement = match settlement.then {
        Then::Go => GO,
        Then::BackOff(_) => BACK_OFF,
        Then::Pause(_) => PAUSE,
    };
    let query = sqlx::query(schema.sql(statement))
        .bind(consumer(sink))
        .bind(lease.token)
        .bind(settlement.up_to.map(|position| position.txid))
        .bind(settlement.up_to.map(|position| position.seq))
        .bind(reach(settlement));
    match &settlement.then {
        Then::Go => query,
        Then::BackOff(failure) => bind_suspect(query, failure.suspect.as_ref())
            .bind(column(failure.attempts))
            .bind(interval(failure.retry_in))
            .bind(failure.kind)
            .bind(error_text(&failure.error)),
        Then::Pause(reason) => query.bind(error_text(reason)),
    }
}

/// The latest transaction that a settlement speaks of.
fn reach(settlement: &Settlement) -> Option<Txid> {
    let letters = settlement.dead_letters.iter();
    let letters = letters.map(|letter| letter.event.position());
    let furthest = letters.chain(settlement.up_to).max();
    furthest.map(|position| position.txid)
}

/// Binds the eight values of `suspect_after`.
fn bind_suspect<'q>(
    query: Query<'q, Postgres, PgArguments>,
    suspect: Option<&Suspect>,
) -> Query<'q, Postgres, PgArguments> {
    let probe = suspect.and_then(|suspect| probe(suspect.stage));
    query
        .bind(suspect.map(|suspect| suspect.position.txid))
        .bind(suspect.map(|suspect| suspect.position.seq))
        .bind(suspect.map(|suspect| column(suspect.attempts)))
        .bind(suspect.map(|suspect| stage(suspect.stage)))
        .bind(suspect.map(|suspect| code_text(&suspect.code)))
        .bind(suspect.map(|suspect| error_text(&suspect.error)))
        .bind(probe.map(|probe| probe.txid))
        .bind(probe.map(|probe| probe.seq))
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Alone => "alone",
        Stage::Comparing => "comparing",
        Stage::Probing(_) => "probing",
        Stage::Confirming => "confirming",
    }
}

fn probe(stage: Stage) -> Option<Position> {
    match stage {
        Stage::Probing(probe) => Some(probe),
        Stage::Alone | Stage::Comparing | Stage::Confirming => None,
    }
}

/// A count as the column holds it.
pub(super) fn column(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
