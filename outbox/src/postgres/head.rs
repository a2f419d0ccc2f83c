//! How far the outbox may be read, and whether there is anything to read.
//!
//! The horizon guards OB-5: every transaction below it has ended, so nothing can
//! appear there any more. It is read before the rows are; it only grows.

use super::database::Database;
use super::error::DatabaseError;
use crate::{Position, Txid};

/// The state of the outbox at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// All transactions below have ended. A horizon that moves back means
    /// another history: a restored database, or a failover that lost commits.
    pub horizon: Txid,
    /// The last event below the horizon.
    pub newest: Option<Position>,
    /// The last operator's command; zero if there was none. Commands appear in order.
    pub operation: i64,
}

impl Head {
    /// The end of what may be read: nothing can appear at or before it any more.
    #[must_use]
    pub const fn end(&self) -> Position {
        Position::before(self.horizon)
    }
}

impl Database {
    /// Looks at the head. Costs the same however long the backlog is.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn head(&self) -> Result<Head, DatabaseError> {
        let sql = self.schema().sql(
            "select pg_snapshot_xmin(pg_current_snapshot()), newest.txid, newest.seq,
                 coalesce((select max(id) from {schema}.outbox_operations), 0)
             from (values (1)) as always
             left join lateral (
                 select txid, seq from {schema}.outbox
                 where txid < pg_snapshot_xmin(pg_current_snapshot())
                 order by txid desc, seq desc limit 1
             ) as newest on true",
        );
        let mut checkout = self.checkout().await?;
        let (horizon, txid, seq, operation): (Txid, Option<Txid>, Option<i64>, i64) = self
            .within(sqlx::query_as(sql).fetch_one(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("look at the outbox's head"))?;
        checkout.release();
        let newest = txid.zip(seq).map(|(txid, seq)| Position { txid, seq });
        Ok(Head {
            horizon,
            newest,
            operation,
        })
    }
}
