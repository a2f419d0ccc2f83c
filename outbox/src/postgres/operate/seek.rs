//! Moving a sink's cursor by command, forth or back (OB-2).
//!
//! The new position is only written down beside the old one: the cursor's owner goes
//! there when it claims the row the next time, and a late write of an earlier delivery
//! can't undo it.

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use super::audit::record;
use super::moment::Moment;
use super::{Answer, OperateError};
use crate::postgres::cursor::consumer;
use crate::postgres::database::Database;
use crate::postgres::schema::Schema;
use crate::postgres::status::MAX_COUNTED_LAG;
use crate::{Position, Txid};

/// Where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// Before everything that is still in the outbox.
    Beginning,
    /// After everything that can be read now.
    Head,
    /// Here: what follows is delivered.
    Position(Position),
    /// Before the first event, in their order, that was published at this moment or later.
    Time(Moment),
}

impl SeekTarget {
    /// For the record of the order.
    fn told(self) -> Value {
        match self {
            Self::Beginning => json!("beginning"),
            Self::Head => json!("head"),
            Self::Position(_) => json!("position"),
            Self::Time(moment) => moment.told(),
        }
    }
}

/// What a seek means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sought {
    /// The order's id; none in a dry run.
    pub operation: Option<i64>,
    /// Where the cursor is.
    pub from: Position,
    /// Where it goes.
    pub to: Position,
    /// How many rows lie between: [`MAX_COUNTED_LAG`] means as many or more. Going back,
    /// they are delivered again; going forth, they are skipped.
    pub rows: u64,
    /// Whether rows after the target may have been deleted already: going back does not
    /// bring these again.
    pub pruned: bool,
}

impl Database {
    /// Orders that a sink goes on from another position. A dry run only says what that
    /// would mean.
    ///
    /// # Errors
    /// [`OperateError`]. Finding a time walks the outbox from its beginning, within the
    /// time that a statement may take.
    pub async fn seek(
        &self,
        sink: &str,
        target: SeekTarget,
        by: &str,
        dry_run: bool,
    ) -> Result<Sought, OperateError> {
        let mut checkout = self.checkout().await?;
        let sought = self
            .within(seek(
                &mut checkout,
                self.schema(),
                (sink, target),
                by,
                dry_run,
            ))
            .await
            .map_err(|error| error.while_doing("seek"))?;
        checkout.release();
        sought
    }
}

async fn seek(
    connection: &mut PgConnection,
    schema: &Schema,
    (sink, target): (&str, SeekTarget),
    by: &str,
    dry_run: bool,
) -> Answer<Sought> {
    let mut transaction = connection.begin().await?;
    let sought = plan(&mut transaction, schema, sink, target).await?;
    let mut sought = match sought {
        Ok(sought) if !dry_run => sought,
        unchanged => {
            transaction.rollback().await?;
            return Ok(unchanged);
        }
    };
    let sql = schema.sql(
        "update {schema}.outbox_cursors set seek_txid = $2, seek_seq = $3
         where stream = 'outbox' and consumer = $1",
    );
    sqlx::query(sql)
        .bind(consumer(sink))
        .bind(sought.to.txid)
        .bind(sought.to.seq)
        .execute(&mut *transaction)
        .await?;
    let details = json!({
        "from": sought.from.to_string(),
        "to": sought.to.to_string(),
        "rows": sought.rows,
        "target": target.told(),
    });
    let what = ("seek", Some(sink));
    sought.operation = Some(record(&mut transaction, schema, what, by, &details).await?);
    transaction.commit().await?;
    Ok(Ok(sought))
}

/// What the seek would mean. Locks the cursor.
async fn plan(
    connection: &mut PgConnection,
    schema: &Schema,
    sink: &str,
    target: SeekTarget,
) -> Answer<Sought> {
    let sql = schema.sql(
        "select kept.txid, kept.seq, pg_snapshot_xmin(pg_current_snapshot())
         from {schema}.outbox_cursors as kept
         where stream = 'outbox' and consumer = $1 for update",
    );
    let row: Option<(Txid, i64, Txid)> = sqlx::query_as(sql)
        .bind(consumer(sink))
        .fetch_optional(&mut *connection)
        .await?;
    let Some((txid, seq, horizon)) = row else {
        return Ok(Err(OperateError::NoCursor(sink.to_owned())));
    };
    let (from, end) = (Position { txid, seq }, Position::before(horizon));
    let to = match target {
        SeekTarget::Beginning => Position::BEGINNING,
        SeekTarget::Head => end,
        SeekTarget::Position(position) if position > end => {
            return Ok(Err(OperateError::BeyondHorizon { position, horizon }));
        }
        SeekTarget::Position(position) => position,
        SeekTarget::Time(moment) => before_first(connection, schema, moment, horizon)
            .await?
            .unwrap_or(end),
    };
    Ok(Ok(Sought {
        operation: None,
        from,
        to,
        rows: rows_between(connection, schema, from.min(to), from.max(to)).await?,
        pruned: to < from
            && target != SeekTarget::Beginning
            && is_pruned(connection, schema, to).await?,
    }))
}

/// The last place before the first readable event of this moment or a later one.
async fn before_first(
    connection: &mut PgConnection,
    schema: &Schema,
    moment: Moment,
    horizon: Txid,
) -> Result<Option<Position>, sqlx::Error> {
    let sql = schema.sql(
        "select txid, seq - 1 from {schema}.outbox
         where txid < $3 and created_at >=
             coalesce(timestamptz 'epoch' + $1, {schema}.compute_now() - $2)
         order by txid, seq limit 1",
    );
    let (at, ago) = moment.parts();
    let row: Option<(Txid, i64)> = sqlx::query_as(sql)
        .bind(at)
        .bind(ago)
        .bind(horizon)
        .fetch_optional(connection)
        .await?;
    Ok(row.map(|(txid, seq)| Position { txid, seq }))
}

/// The number of rows in `(after, up_to]`, as far as it is counted.
async fn rows_between(
    connection: &mut PgConnection,
    schema: &Schema,
    after: Position,
    up_to: Position,
) -> Result<u64, sqlx::Error> {
    let sql = schema.sql(
        "select count(*) from (
             select from {schema}.outbox
             where (txid, seq) > ($1, $2) and txid >= $1
                 and (txid, seq) <= ($3, $4) and txid <= $3
             limit $5
         ) as counted",
    );
    let rows: i64 = sqlx::query_scalar(sql)
        .bind(after.txid)
        .bind(after.seq)
        .bind(up_to.txid)
        .bind(up_to.seq)
        .bind(i64::try_from(MAX_COUNTED_LAG).unwrap_or(i64::MAX))
        .fetch_one(connection)
        .await?;
    Ok(u64::try_from(rows).unwrap_or(0))
}

/// Whether the outbox holds nothing up to a position any more, although something was
/// there once: then what followed may be gone as well.
async fn is_pruned(
    connection: &mut PgConnection,
    schema: &Schema,
    position: Position,
) -> Result<bool, sqlx::Error> {
    let sql = schema.sql("select txid, seq from {schema}.outbox order by txid, seq limit 1");
    let first: Option<(Txid, i64)> = sqlx::query_as(sql).fetch_optional(connection).await?;
    Ok(first.is_none_or(|(txid, seq)| seq > 1 && Position { txid, seq } > position))
}
