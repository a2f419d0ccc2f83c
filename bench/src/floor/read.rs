//! Reading alone: one `copy` of the rows in the relay's order, thrown away.

use anyhow::Result;
use futures_util::TryStreamExt;
use tokio::time::Instant;

use super::protocol;
use super::rows::Source;

const ALL_ROWS: &str = "copy (
    select txid, seq, topic, payload from outbox order by txid, seq
) to stdout (format binary)";

/// Reads all rows.
pub(super) async fn run(source: &Source) -> Result<()> {
    let start = Instant::now();
    let mut connection = source.connect().await?;
    let mut rows = connection.copy_out_raw(ALL_ROWS).await?;
    while rows.try_next().await?.is_some() {}
    protocol::done(start.elapsed())
}
