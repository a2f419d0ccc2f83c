//! The head and the rows before it in one look: what a loop that has caught up wants.
//!
//! Guards OB-5 in its own way: horizon and rows come from one statement, so from one
//! snapshot. A row below that horizon is in the answer, or there is none.

use futures_util::TryStreamExt;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use super::error::DatabaseError;
use super::head::Head;
use super::page::{Page, RawRow};
use super::reader::Reader;
use super::walk::{Limits, Walk};
use crate::Position;

/// The horizon and the last command, then the newest position if there is one, then
/// the rows. An `append` keeps that order where nothing runs in parallel, as in our
/// sessions; it is checked all the same.
///
/// In parentheses the other way, the first two nulls would make a column of text.
const HEAD_AND_ROWS: &str = "\
select pg_snapshot_xmin(pg_current_snapshot()) as txid,
    coalesce((select max(id) from {schema}.outbox_operations), 0) as seq, null as topic, null as payload
union all (
    (
        select txid, seq, null, null
        from {schema}.outbox
        where txid < pg_snapshot_xmin(pg_current_snapshot())
        order by txid desc, seq desc limit 1
    )
    union all (
        select txid, seq, topic, payload
        from {schema}.outbox
        where (txid, seq) > ($1, $2) and txid >= $1
            and txid < pg_snapshot_xmin(pg_current_snapshot())
        order by txid, seq limit $3
    )
)";

/// What to read before the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailRequest {
    /// The position that is done with: the page begins after it.
    pub after: Position,
    /// The most events of the page, at least 1.
    pub max_events: usize,
    /// The most payload bytes of the page. A larger event makes a page of its own.
    pub max_bytes: usize,
}

impl Reader {
    /// Looks at the head and reads the first page after a position, in one round trip.
    /// The reader's filter is left aside: the page is for every consumer.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn read_tail(&mut self, request: TailRequest) -> Result<(Head, Page), DatabaseError> {
        // Not what is run here; but what it was made for is checked along with it.
        let statement = self.take_statement().await?;
        let limits = Limits {
            max_events: request.max_events,
            max_bytes: request.max_bytes,
        };
        let limit = self.pace.rows(limits.max_events, limits.max_bytes);
        let query = sqlx::query(self.database.schema().sql(HEAD_AND_ROWS))
            .bind(request.after.txid)
            .bind(request.after.seq)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let mut walk = Walk::new(limits);
        let mut checkout = self.database.checkout().await?;
        let (head, complete) = self
            .database
            .within(look(&mut checkout, query, &mut walk))
            .await
            .map_err(|error| error.while_doing("read the outbox's tail"))?;
        if complete {
            checkout.release();
        }
        self.statement = Some(statement);
        walk.teach(&mut self.pace);
        let page = walk.into_page(limit, request.after, head.horizon, |_| true);
        Ok((head, page))
    }
}

/// Takes the head from the answer, and the rows into the walk. Returns also whether the
/// answer was read to its end.
async fn look(
    connection: &mut PgConnection,
    query: Query<'static, Postgres, PgArguments>,
    walk: &mut Walk,
) -> Result<(Head, bool), sqlx::Error> {
    let mut rows = query.fetch(connection);
    let mut seen: Option<Head> = None;
    while let Some(row) = rows.try_next().await? {
        let row = RawRow::read(&row)?;
        let Some(head) = &mut seen else {
            seen = Some(Head {
                horizon: row.position.txid,
                newest: None,
                operation: row.position.seq,
            });
            continue;
        };
        if row.event.is_none() {
            head.newest = Some(row.position);
            continue;
        }
        let in_order = walk.end.is_none_or(|before| before < row.position)
            && head.newest >= Some(row.position);
        if !in_order {
            let told = "the rows of the outbox's tail came out of order";
            return Err(sqlx::Error::Protocol(told.to_owned()));
        }
        if !walk.take(&row) {
            return Ok((*head, false));
        }
    }
    seen.map(|head| (head, true))
        .ok_or(sqlx::Error::RowNotFound)
}
