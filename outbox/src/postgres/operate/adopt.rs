//! Adopting what a dump brought: an outbox and cursors from another cluster.
//!
//! A dump keeps the positions, and they mean nothing where it was restored: transaction
//! ids that the new cluster has not given out yet are never readable, and cursors at
//! such positions would skip what is published now. So every row gets a new position in
//! the old order, and every cursor its place among them. Nothing is lost, and nothing
//! that was delivered before the dump is sent again.
//!
//! What was published here since the restore comes after what the dump brought. It is
//! told from that by its transaction, and a cursor of another cluster has delivered
//! nothing that is newer than the cursor itself.

use serde_json::json;
use sqlx::{Connection, PgConnection};

use super::audit::record;
use super::{Answer, OperateError};
use crate::postgres::connect::ConnectSettings;
use crate::postgres::error::DatabaseError;
use crate::postgres::lease::sink_lease;
use crate::postgres::schema::Schema;
use crate::{Position, Txid};

/// What was adopted, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The order's id; none in a dry run.
    pub operation: Option<i64>,
    /// How many rows the outbox has: each gets a new position.
    pub rows: u64,
    /// The place before the first of them.
    pub base: Position,
    /// The cursors, by consumer.
    pub cursors: Vec<AdoptedCursor>,
}

/// A cursor that was adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptedCursor {
    /// Whose it is: `sink:NAME` for a sink.
    pub consumer: String,
    /// Where it was.
    pub from: Position,
    /// Where it is.
    pub to: Position,
    /// How many rows lie before it: they are delivered next.
    pub waiting: u64,
}

/// Gives every row of the outbox and every cursor a position of this cluster, on a
/// connection of its own. `None` if all of them have one. Publishers wait meanwhile, but
/// for a dry run nobody does. The connection's role must own the tables.
///
/// # Errors
/// [`OperateError`]; also while a worker holds a sink's lease. All is done or nothing.
pub async fn adopt(
    settings: &ConnectSettings,
    by: &str,
    dry_run: bool,
) -> Result<Option<Adopted>, OperateError> {
    let mut connection = settings.open().await?;
    // It waits for publishers and goes through the whole table, which may take its time.
    // The connection is closed afterwards, and with it the settings are gone.
    sqlx::raw_sql(
        "set statement_timeout = 0; set lock_timeout = 0;
         set idle_in_transaction_session_timeout = 0; set enable_seqscan = on",
    )
    .execute(&mut connection)
    .await
    .map_err(DatabaseError::from)?;
    let adopted = give(&mut connection, &settings.schema, by, dry_run)
        .await
        .map_err(|error| DatabaseError::from(error).while_doing("adopt the outbox"))?;
    connection.close().await.map_err(DatabaseError::from)?;
    adopted
}

async fn give(
    connection: &mut PgConnection,
    schema: &Schema,
    by: &str,
    dry_run: bool,
) -> Answer<Option<Adopted>> {
    // A sound database is left alone: nobody has to wait or to stop for that answer.
    match foresee(connection, schema).await? {
        Ok(Some(_)) if !dry_run => {}
        planned => return Ok(planned),
    }
    let mut transaction = connection.begin().await?;
    // In this order: a publisher has locked only the first, a worker at most one of the
    // others. From here on nobody publishes, takes a lease or moves a cursor.
    let sql = schema.sql(
        "lock table {schema}.outbox in share row exclusive mode;
         lock table {schema}.outbox_cursors, {schema}.leases in share row exclusive mode",
    );
    sqlx::raw_sql(sql).execute(&mut *transaction).await?;
    if let Some(holders) = holders(&mut transaction, schema).await? {
        transaction.rollback().await?;
        return Ok(Err(OperateError::Held(holders)));
    }
    let drawn = draw(&mut transaction, schema).await?;
    let Some(mut adopted) = plan(&mut transaction, schema, drawn).await? else {
        transaction.rollback().await?;
        return Ok(Ok(None));
    };
    renumber(&mut transaction, schema, &adopted).await?;
    let cursors = adopted.cursors.iter().map(|cursor| {
        let positions = json!({"from": cursor.from.to_string(), "to": cursor.to.to_string()});
        (cursor.consumer.clone(), positions)
    });
    let cursors: serde_json::Map<_, _> = cursors.collect();
    let details = json!({ "rows": adopted.rows, "cursors": cursors });
    let what = ("adopt", None);
    adopted.operation = Some(record(&mut transaction, schema, what, by, &details).await?);
    transaction.commit().await?;
    Ok(Ok(Some(adopted)))
}

/// What adopting would do now. It sees one moment and locks nothing.
async fn foresee(connection: &mut PgConnection, schema: &Schema) -> Answer<Option<Adopted>> {
    let mut moment = connection
        .begin_with("begin isolation level repeatable read, read only")
        .await?;
    let planned = plan(&mut moment, schema, 0).await?;
    let holders = match planned {
        Some(_) => holders(&mut moment, schema).await?,
        None => None,
    };
    moment.rollback().await?;
    Ok(match holders {
        Some(holders) => Err(OperateError::Held(holders)),
        None => Ok(planned),
    })
}

/// The sinks whose leases are held, and by whom.
async fn holders(
    connection: &mut PgConnection,
    schema: &Schema,
) -> Result<Option<String>, sqlx::Error> {
    let sql = schema.sql(
        "select string_agg(substr(name, length($1) + 1) || ' (by ' || holder || ')', ', ')
         from {schema}.leases
         where starts_with(name, $1) and holder is not null
             and expires_at > {schema}.compute_now()",
    );
    sqlx::query_scalar(sql)
        .bind(sink_lease(""))
        .fetch_one(connection)
        .await
}

/// Every row with its place in the new order. A transaction has a number before it writes,
/// so a row whose number is not given out yet, or is greater than that of the transaction
/// that wrote it here, came with a dump (`came`). What was published here since has a
/// number greater than the one that restored them (`ours`).
macro_rules! placed {
    () => {
        "with now as (
             select pg_snapshot_xmax(pg_current_snapshot())::text::int8 as next
         ), written as (
             select txid, seq, created_at, txid::text::int8 as number, next,
                 ((next >> 32) << 32) + event.xmin::text::int8 as writer
             from {schema}.outbox as event, now
         ), judged as (
             select txid, seq, created_at, number, writer,
                 number >= next
                 or number > writer - case when writer >= next then 1::int8 << 32 else 0 end as came
             from written
         ), placed as materialized (
             select txid, seq, created_at, came, row_number() over (order by
                 coalesce(number > (select max(writer) from judged where came), false) and not came,
                 txid, seq
             ) as place
             from judged
         ) "
    };
}

/// How far each cursor has come in the new order: up to the first row that it has not
/// passed. One that came with a dump has passed nothing that was published after it was
/// saved.
const CURSORS: &str = concat!(
    placed!(),
    "select consumer, kept.txid, kept.seq, kept.came, coalesce(
         (select min(place) - 1 from placed
          where (placed.txid, placed.seq) > (kept.txid, kept.seq)
              or kept.came and placed.created_at > kept.moved_at),
         (select count(*) from placed)
     )
     from (
         select consumer, txid, seq, moved_at,
             system_identifier <> (pg_control_system()).system_identifier
             or txid::text::int8 >= next as came
         from {schema}.outbox_cursors, now where stream = 'outbox'
     ) as kept order by consumer"
);

const ROWS: &str = concat!(
    placed!(),
    "select pg_snapshot_xmin(pg_current_snapshot()), count(*), coalesce(bool_or(came), false),
         coalesce(max(seq), 0)
     from placed"
);

const RENUMBER: &str = concat!(
    placed!(),
    "update {schema}.outbox as event set txid = $1, seq = $2 + place
     from placed where event.txid = placed.txid and event.seq = placed.seq"
);

/// What is to be done, with numbers greater than `drawn`; `None` if nothing is.
async fn plan(
    connection: &mut PgConnection,
    schema: &Schema,
    drawn: i64,
) -> Result<Option<Adopted>, sqlx::Error> {
    let (horizon, rows, came, last): (Txid, i64, bool, i64) = sqlx::query_as(schema.sql(ROWS))
        .fetch_one(&mut *connection)
        .await?;
    type Row = (String, Txid, i64, bool, i64);
    let cursors: Vec<Row> = sqlx::query_as(schema.sql(CURSORS))
        .fetch_all(connection)
        .await?;
    if !came && cursors.iter().all(|(_, _, _, came, _)| !came) {
        return Ok(None);
    }
    // The last transaction of which nothing can appear any more: what is committed from
    // now on, also by a transaction that runs already, comes after these rows.
    let base = Position {
        seq: last.max(drawn),
        ..Position::before(horizon)
    };
    let cursors = cursors.into_iter().map(|(consumer, txid, seq, _, passed)| {
        let to = Position {
            seq: base.seq + passed,
            ..base
        };
        AdoptedCursor {
            consumer,
            from: Position { txid, seq },
            to,
            waiting: u64::try_from(rows - passed).unwrap_or(0),
        }
    });
    Ok(Some(Adopted {
        operation: None,
        rows: u64::try_from(rows).unwrap_or(0),
        base,
        cursors: cursors.collect(),
    }))
}

/// A number that no row has had yet.
async fn draw(connection: &mut PgConnection, schema: &Schema) -> Result<i64, sqlx::Error> {
    let sql = "select coalesce(nextval(pg_get_serial_sequence($1, 'seq')), 0)";
    sqlx::query_scalar(sql)
        .bind(format!("{}.outbox", schema.quoted()))
        .fetch_one(connection)
        .await
}

async fn renumber(
    connection: &mut PgConnection,
    schema: &Schema,
    adopted: &Adopted,
) -> Result<(), sqlx::Error> {
    sqlx::query(schema.sql(RENUMBER))
        .bind(adopted.base.txid)
        .bind(adopted.base.seq)
        .execute(&mut *connection)
        .await?;
    sqlx::query("select setval(pg_get_serial_sequence($1, 'seq'), $2)")
        .bind(format!("{}.outbox", schema.quoted()))
        .bind(adopted.base.seq + i64::try_from(adopted.rows).unwrap_or(0) + 1)
        .execute(&mut *connection)
        .await?;
    // A greater token fences off whoever still believes to own the cursor.
    let sql = schema.sql(
        "update {schema}.outbox_cursors
         set txid = $2, seq = $3, token = token + 1, moved_at = {schema}.compute_now(),
             system_identifier = (pg_control_system()).system_identifier,
             generation = greatest(generation + 1,
                 (extract(epoch from {schema}.compute_now()) * 1000000)::bigint),
             delivered_txid = null, delivered_seq = null,
             marked_txid = null, marked_seq = null,
             attempts = 0, next_retry_at = null, last_error_kind = null, last_error = null,
             suspect_txid = null, suspect_seq = null, suspect_attempts = null,
             suspect_since = null, suspect_stage = null, suspect_code = null,
             suspect_error = null, probe_txid = null, probe_seq = null,
             in_hand_txid = null, in_hand_seq = null, delivering = false,
             hunt_txid = null, hunt_seq = null, seek_txid = null, seek_seq = null
         where stream = 'outbox' and consumer = $1",
    );
    for cursor in &adopted.cursors {
        sqlx::query(sql.clone())
            .bind(&cursor.consumer)
            .bind(cursor.to.txid)
            .bind(cursor.to.seq)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
