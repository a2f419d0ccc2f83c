//! The store that is Postgres: the loops' questions put to the crate `outbox`.

use std::time::Duration;

use outbox::{Database, DatabaseError, Fence, Filter, PageRequest, Position, sink_lease};

use super::{Claim, Failure, Head, Lease, Owned, Page, PageEnd, Range, Reader, Store, StoreError};
use crate::settings::Start;

impl Store for Database {
    type Reader = outbox::Reader;

    fn history(&self) -> u64 {
        self.losses()
    }

    async fn head(&self) -> Result<Head, StoreError> {
        // Asked first: a head that is tagged too old is passed over, which is harmless.
        let history = self.losses();
        let outbox::Head { horizon, newest } = self.head().await?;
        Ok(Head {
            horizon,
            newest,
            history,
        })
    }

    async fn reader(&self, filter: &Filter) -> Result<outbox::Reader, StoreError> {
        Ok(self.reader(filter).await?)
    }

    async fn acquire(
        &self,
        sink: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, StoreError> {
        let taken = self.acquire_lease(&sink_lease(sink), holder, ttl).await?;
        Ok(taken.map(|outbox::Lease { holder, token, .. }| Lease {
            sink: sink.to_owned(),
            holder,
            token,
        }))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Owned, StoreError> {
        Ok(if self.renew_lease(&row(lease), ttl).await? {
            Owned::Yes
        } else {
            Owned::No
        })
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        Ok(self.release_lease(&row(lease)).await?)
    }

    async fn claim(&self, lease: &Lease, start: Start) -> Result<Claim, StoreError> {
        let start = match start {
            Start::Beginning => Position::BEGINNING,
            Start::Head => self.head().await?.end(),
        };
        let claimed = self.claim_cursor(&lease.sink, &row(lease), start).await?;
        Ok(match claimed {
            Fence::Fenced => Claim::Fenced,
            Fence::Held(cursor) => Claim::Claimed {
                position: cursor.position,
                foreign: cursor.foreign,
                attempts: cursor.attempts,
                retry_in: cursor.retry_in.unwrap_or_default(),
            },
        })
    }

    async fn save(&self, lease: &Lease, position: Position) -> Result<Owned, StoreError> {
        Ok(self
            .save_cursor(&lease.sink, &row(lease), position)
            .await?
            .into())
    }

    async fn save_failure(&self, lease: &Lease, failure: &Failure) -> Result<Owned, StoreError> {
        let Failure {
            up_to,
            attempts,
            retry_in,
            kind,
            ref error,
        } = *failure;
        let failure = outbox::Failure {
            up_to,
            attempts,
            retry_in,
            kind,
            error,
        };
        Ok(self
            .save_failure(&lease.sink, &row(lease), failure)
            .await?
            .into())
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
        let page = self.read(request).await?;
        let ended_by = match (page.exhausted, page.full) {
            (true, _) => PageEnd::Horizon,
            (false, true) => PageEnd::Bytes,
            (false, false) => PageEnd::Rows,
        };
        Ok(Page {
            events: page.events,
            end: page.end,
            ended_by,
        })
    }
}

impl From<Fence> for Owned {
    fn from(fence: Fence) -> Self {
        match fence {
            Fence::Held(()) => Self::Yes,
            Fence::Fenced => Self::No,
        }
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        Self::new(error)
    }
}

/// The lease as its row has it.
fn row(lease: &Lease) -> outbox::Lease {
    outbox::Lease {
        name: sink_lease(&lease.sink),
        holder: lease.holder.clone(),
        token: lease.token,
    }
}
