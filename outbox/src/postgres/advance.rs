//! Moving several cursors with one statement: what most deliveries come to.
//!
//! It takes along only what is plain: a row with nothing to forget, under the mover's own
//! token (OB-3), before where it moves to (OB-2), below the server's horizon, and locked by
//! nobody, so that one sink never waits for another one's row. What it leaves is no verdict:
//! [`Database::settle`] says how things stand.

use super::cursor::consumer;
use super::database::Database;
use super::error::DatabaseError;
use super::settlement::Advance;

/// The conditions hold for the row that is locked, however new it is: that is what "read
/// committed" promises.
const ADVANCE: &str = "\
with due as (
    select kept.consumer, move.txid, move.seq
    from unnest($1::text[], $2::int8[], $3::xid8[], $4::int8[])
        as move (consumer, token, txid, seq)
    join {schema}.outbox_cursors as kept
        on kept.stream = 'outbox' and kept.consumer = move.consumer
    where kept.token = move.token
        and (kept.txid, kept.seq) < (move.txid, move.seq)
        and move.txid < pg_snapshot_xmin(pg_current_snapshot())
        and kept.attempts = 0 and kept.last_error_kind is null and not kept.delivering
        and kept.in_hand_txid is null and kept.hunt_txid is null and kept.suspect_txid is null
    for update of kept skip locked
)
update {schema}.outbox_cursors as kept
set txid = due.txid, seq = due.seq, moved_at = {schema}.compute_now()
from due where kept.stream = 'outbox' and kept.consumer = due.consumer
returning kept.consumer";

impl Database {
    /// Moves the cursors that can be moved plainly, each on its own terms, and tells of each
    /// whether it was.
    ///
    /// # Errors
    /// [`DatabaseError`]. Whatever was moved may be moved again.
    pub async fn advance(&self, moves: &[Advance]) -> Result<Vec<bool>, DatabaseError> {
        let consumers: Vec<_> = moves.iter().map(|it| consumer(&it.sink)).collect();
        let tokens: Vec<_> = moves.iter().map(|it| it.token).collect();
        let txids: Vec<_> = moves.iter().map(|it| it.up_to.txid).collect();
        let seqs: Vec<_> = moves.iter().map(|it| it.up_to.seq).collect();
        let query = sqlx::query_scalar(self.schema().sql(ADVANCE))
            .bind(&consumers)
            .bind(tokens)
            .bind(txids)
            .bind(seqs);
        let mut checkout = self.checkout().await?;
        let moved: Vec<String> = self
            .within(query.fetch_all(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("move cursors"))?;
        checkout.release();
        Ok(consumers.iter().map(|it| moved.contains(it)).collect())
    }
}
