//! The rows of one answer on their way into a page.

use futures_util::TryStreamExt;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use super::pace::Pace;
use super::page::{Draft, Page, RawRow};
use crate::{Event, Position, Txid};

/// Rows that come after a page is full are read and thrown away up to so many
/// bytes; if more are on their way it is cheaper to hang up.
const MAX_DRAINED_BYTES: usize = 256 * 1024;

/// How much a page may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_events: usize,
    pub(super) max_bytes: usize,
}

/// A page in the making, and what was seen on the way.
pub(super) struct Walk {
    limits: Limits,
    draft: Draft,
    /// The last row that was walked over.
    pub(super) end: Option<Position>,
    /// The rows walked over.
    rows: usize,
    /// Whether a limit was reached before the rows ended.
    full: bool,
    seen_events: usize,
    seen_bytes: usize,
    drained: usize,
}

impl Walk {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            draft: Draft::default(),
            end: None,
            rows: 0,
            full: false,
            seen_events: 0,
            seen_bytes: 0,
            drained: 0,
        }
    }

    /// Takes rows until there are no more or the page is full. Returns whether
    /// the answer was read to its end, so that the connection can be used again.
    pub(super) async fn run(
        &mut self,
        connection: &mut PgConnection,
        query: Query<'static, Postgres, PgArguments>,
    ) -> Result<bool, sqlx::Error> {
        let mut rows = query.fetch(connection);
        while let Some(row) = rows.try_next().await? {
            if !self.take(&RawRow::read(&row)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes a row, unless the page is full. Returns whether it is worth reading on.
    pub(super) fn take(&mut self, row: &RawRow<'_>) -> bool {
        let size = row.event.map_or(0, |event| event.payload.len());
        if self.full {
            self.drained += size;
            return self.drained <= MAX_DRAINED_BYTES;
        }
        if let Some(event) = row.event {
            self.seen_events += 1;
            self.seen_bytes += size;
            let Limits {
                max_events,
                max_bytes,
            } = self.limits;
            if self.draft.is_full_for(event, max_events, max_bytes) {
                self.full = true;
                self.drained = size;
                return true;
            }
            self.draft.push(row.position, event);
        }
        self.rows += 1;
        self.end = Some(row.position);
        true
    }

    /// Lets the next reads know how large rows are.
    pub(super) fn teach(&self, pace: &mut Pace) {
        pace.learn(self.rows, self.seen_events, self.seen_bytes);
    }

    /// The page that has come of it, if at most `limit` rows were asked for.
    pub(super) fn into_page(
        self,
        limit: u64,
        after: Position,
        horizon: Txid,
        takes: impl Fn(&Event) -> bool,
    ) -> Page {
        let exhausted = !self.full && u64::try_from(self.rows).is_ok_and(|rows| rows < limit);
        let end = match self.end {
            _ if exhausted => Position::before(horizon),
            Some(end) => end,
            None => after,
        };
        let events = self.draft.into_events(takes);
        Page {
            payload_bytes: events.iter().map(|event| event.payload().len()).sum(),
            events,
            end,
            exhausted,
            full: self.full,
            rows_scanned: self.rows,
        }
    }
}
