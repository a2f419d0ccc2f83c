//! Holding a lease: everything that is done under it ends when it is lost.

use std::time::Duration;

use outbox::{Lease, Owned};
use outbox_sinks::SinkError;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::board::{Page, State};
use crate::head::{HeadReceiver, first_head, last_operation, next_operation};
use crate::keeper::Keeper;
use crate::outage::{News, Outage};
use crate::store::{Store, StoreError};

/// The pause between two tries to write to a database that does not answer.
const STORE_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// What writing the cursor may take after deliveries must have ended.
const STORE_GRACE: Duration = Duration::from_secs(2);

/// Why holding a lease ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A stop was asked for.
    Stopped,
    /// The lease was lost, or could not be renewed in time.
    LeaseLost,
    /// Somebody newer owns the destination.
    Fenced(SinkError),
    /// Another worker should have the sink.
    GivenBack,
    /// An operator has ordered something: the cursor row says what.
    Ordered,
    /// The cursor has followed the destination: what was read lies before it.
    Resumed,
    /// What was read may belong to another history than the database has now.
    Reread,
    /// The cursor, or what the destination has stored, belongs to another history than this
    /// database: going on could skip events in silence. A person must decide.
    Foreign(String),
}

impl Ended {
    /// What a loop is doing after this, without a lease.
    pub(crate) const fn state(&self) -> State {
        match self {
            Self::Stopped | Self::Foreign(_) => State::Stopped,
            Self::LeaseLost
            | Self::Fenced(_)
            | Self::GivenBack
            | Self::Ordered
            | Self::Resumed
            | Self::Reread => State::Waiting,
        }
    }
}

/// A lease that is held, and what can end that.
pub(crate) struct Hold<'a, S> {
    pub(crate) store: &'a S,
    pub(crate) sink: &'a str,
    pub(crate) board: &'a Page,
    pub(crate) lease: &'a Lease,
    pub(crate) keeper: &'a Keeper,
    pub(crate) stop: &'a CancellationToken,
    /// Cancelled when deliveries must have ended after a stop.
    pub(crate) overdue: &'a CancellationToken,
    pub(crate) head: &'a HeadReceiver,
    /// The last operator's command that the loop knows the consequences of.
    pub(crate) operation: Option<i64>,
    /// Set when another worker should have the sink.
    pub(crate) give_back: watch::Receiver<bool>,
}

/// `derive` would want a store that can be cloned.
impl<S> Clone for Hold<'_, S> {
    fn clone(&self) -> Self {
        Self {
            give_back: self.give_back.clone(),
            ..*self
        }
    }
}

/// What ends even that which a stop lets finish.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    keeper: &'a Keeper,
    overdue: &'a CancellationToken,
}

impl<'a, S: Store> Hold<'a, S> {
    /// Runs something that a stop and an operator's command end.
    pub(crate) async fn until_stopped<T>(&self, what: impl Future<Output = T>) -> Result<T, Ended> {
        let mut give_back = self.give_back.clone();
        tokio::select! {
            biased;
            // 1. Without the lease nothing may be done any more.
            () = self.keeper.lost() => Err(Ended::LeaseLost),
            // 2. A stop goes before more work.
            () = self.stop.cancelled() => Err(Ended::Stopped),
            // 3. What operators want goes before it as well.
            () = next_operation(self.head, self.operation) => Err(Ended::Ordered),
            // 4. Another worker has too little to do.
            Ok(_) = give_back.wait_for(|wanted| *wanted) => Err(Ended::GivenBack),
            // 5. The thing itself.
            done = what => Ok(done),
        }
    }

    /// Whether nothing has ended this while something else was done.
    pub(crate) async fn check(&self) -> Result<(), Ended> {
        self.until_stopped(std::future::ready(())).await
    }

    /// Takes note that what was ordered up to now will be found in the cursor row.
    /// Waits until the head was seen once.
    pub(crate) async fn look_at_orders(&mut self) -> Result<(), Ended> {
        self.operation = None;
        self.until_stopped(first_head(self.head)).await?;
        self.operation = last_operation(self.head);
        Ok(())
    }

    /// The same as [`Bounds::to_the_end`].
    pub(crate) async fn to_the_end<T>(
        &self,
        grace: Duration,
        what: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        self.bounds().to_the_end(grace, what).await
    }

    /// What bounds whatever is done under the lease.
    pub(crate) const fn bounds(&self) -> Bounds<'a> {
        Bounds {
            keeper: self.keeper,
            overdue: self.overdue,
        }
    }

    /// Asks the store until it answers, for what a stop lets finish.
    pub(crate) async fn ask<T, Fut>(&self, call: impl Fn() -> Fut) -> Result<T, Ended>
    where
        Fut: Future<Output = Result<T, StoreError>>,
    {
        self.to_the_end(STORE_GRACE, self.answer(call)).await
    }

    /// The same, for what a stop makes needless.
    pub(crate) async fn ask_unless_stopped<T, Fut>(
        &self,
        call: impl Fn() -> Fut,
    ) -> Result<T, Ended>
    where
        Fut: Future<Output = Result<T, StoreError>>,
    {
        self.until_stopped(self.answer(call)).await
    }

    async fn answer<T, Fut>(&self, call: impl Fn() -> Fut) -> T
    where
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let mut outage = Outage::default();
        loop {
            let asking = self.board.asking();
            let answer = call().await;
            drop(asking);
            match answer {
                Ok(answer) => return answer,
                Err(error) => {
                    let reason = error.to_string();
                    if outage.failed(&reason) != News::Same {
                        let sink = self.sink;
                        warn!(sink, error = reason, "can't use the cursor");
                    }
                    sleep(STORE_RETRY_INTERVAL).await;
                }
            }
        }
    }

    /// Writes to the cursor until it is done, or a newer lease shows up, or the
    /// history is no longer the one that the cursor was claimed in.
    pub(crate) async fn write<Fut>(&self, history: u64, call: impl Fn() -> Fut) -> Result<(), Ended>
    where
        Fut: Future<Output = Result<Owned, StoreError>>,
    {
        let call = || {
            let current = self.store.history() == history;
            let writing = current.then(&call);
            async move {
                match writing {
                    Some(writing) => writing.await.map(Some),
                    None => Ok(None),
                }
            }
        };
        match self.ask(call).await? {
            Some(Owned::Yes) => Ok(()),
            Some(Owned::No) => Err(Ended::LeaseLost),
            None => Err(Ended::Reread),
        }
    }
}

impl Bounds<'_> {
    /// Runs something that a stop lets finish, if it does so in time: `grace` later
    /// than deliveries must have ended.
    pub(crate) async fn to_the_end<T>(
        self,
        grace: Duration,
        what: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        let overdue = async {
            self.overdue.cancelled().await;
            sleep(grace).await;
        };
        tokio::select! {
            biased;
            // 1. Without the lease nothing may be done any more.
            () = self.keeper.lost() => Err(Ended::LeaseLost),
            // 2. The thing itself.
            done = what => Ok(done),
            // 3. A stop that has waited long enough.
            () = overdue => Err(Ended::Stopped),
        }
    }
}
