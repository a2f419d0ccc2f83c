//! The store that is Postgres: the loops' questions put to the crate `outbox`.

use std::time::Duration;

use outbox::{
    Advance, Cursor, Database, DatabaseError, Filter, Lease, Mark, Member, Owned, PageRequest,
    Position, Pruned, Replay, ReplayOutcome, Settlement, TailRequest,
};

use super::{Head, Page, PageEnd, Range, Reader, Store, StoreError, Tail, TailRange};
use crate::settings::Start;

impl Store for Database {
    type Reader = outbox::Reader;

    fn history(&self) -> u64 {
        self.losses()
    }

    async fn head(&self) -> Result<Head, StoreError> {
        // Asked first: a head that is tagged too old is passed over, which is harmless.
        let history = self.losses();
        Ok(in_history(history, self.head().await?))
    }

    async fn tail(
        &self,
        reader: &mut outbox::Reader,
        range: TailRange,
    ) -> Result<Tail, StoreError> {
        let history = self.losses();
        let request = TailRequest {
            after: range.after,
            max_events: range.max_events,
            max_bytes: range.max_bytes,
        };
        let (head, page) = reader.read_tail(request).await?;
        Ok(Tail {
            head: in_history(history, head),
            page: page.into(),
        })
    }

    async fn reader(&self, filter: &Filter) -> Result<outbox::Reader, StoreError> {
        Ok(self.reader(filter).await?)
    }

    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, StoreError> {
        Ok(self.acquire_lease(name, holder, ttl).await?)
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Owned, StoreError> {
        Ok(self.renew_lease(lease, ttl).await?)
    }

    async fn renew_all(&self, leases: &[Lease], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        Ok(self.renew_leases(leases, ttl).await?)
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        Ok(self.release_lease(lease).await?)
    }

    async fn claim(
        &self,
        sink: &str,
        lease: &Lease,
        start: Start,
    ) -> Result<Option<Cursor>, StoreError> {
        let start = match start {
            Start::Beginning => Position::BEGINNING,
            Start::Head => self.head().await?.end(),
        };
        Ok(self.claim(sink, lease, start).await?)
    }

    async fn settle(
        &self,
        sink: &str,
        lease: &Lease,
        settlement: &Settlement,
    ) -> Result<Owned, StoreError> {
        Ok(self.settle(sink, lease, settlement).await?)
    }

    async fn advance(&self, moves: &[Advance]) -> Result<Vec<bool>, StoreError> {
        Ok(self.advance(moves).await?)
    }

    async fn mark(&self, sink: &str, lease: &Lease, mark: &Mark) -> Result<Owned, StoreError> {
        Ok(self.mark(sink, lease, mark).await?)
    }

    async fn recent_dead_letters(
        &self,
        sink: &str,
        window: Duration,
        except: &[Position],
    ) -> Result<u32, StoreError> {
        Ok(self.recent_dead_letters(sink, window, except).await?)
    }

    async fn replays(&self, sink: &str, limit: u32) -> Result<Vec<Replay>, StoreError> {
        Ok(self.replays(sink, limit).await?)
    }

    async fn settle_replays(
        &self,
        sink: &str,
        lease: &Lease,
        outcomes: &[(i64, ReplayOutcome)],
    ) -> Result<Owned, StoreError> {
        Ok(self.settle_replays(sink, lease, outcomes).await?)
    }

    async fn census(
        &self,
        holder: &str,
        sinks: &[String],
        ttl: Duration,
    ) -> Result<Vec<Member>, StoreError> {
        Ok(self.census(holder, sinks, ttl).await?)
    }

    async fn leave(&self, holder: &str) -> Result<(), StoreError> {
        Ok(self.leave(holder).await?)
    }

    async fn prune(&self, min_age: Duration, after: Position) -> Result<Pruned, StoreError> {
        Ok(self.prune(min_age, after).await?)
    }
}

impl Reader for outbox::Reader {
    async fn read(&mut self, range: Range) -> Result<Page, StoreError> {
        let Range {
            after,
            horizon,
            max_events,
            max_bytes,
        } = range;
        let request = PageRequest {
            after,
            horizon,
            max_events,
            max_bytes,
        };
        Ok(self.read(request).await?.into())
    }
}

impl From<outbox::Page> for Page {
    fn from(page: outbox::Page) -> Self {
        let ended_by = match (page.exhausted, page.full) {
            (true, _) => PageEnd::Horizon,
            (false, true) => PageEnd::Bytes,
            (false, false) => PageEnd::Rows,
        };
        Self {
            events: page.events,
            end: page.end,
            ended_by,
        }
    }
}

const fn in_history(history: u64, head: outbox::Head) -> Head {
    let outbox::Head {
        horizon,
        newest,
        operation,
    } = head;
    Head {
        horizon,
        newest,
        operation,
        history,
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        Self::new(error)
    }
}
