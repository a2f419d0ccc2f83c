//! Delivering once: written down first, for those who need that.

use std::sync::Arc;

use outbox::Mark;
use outbox_sinks::{Batch, Delivery, SinkError, Upcoming};

use super::Tenure;
use crate::attempt;
use crate::decide::{Attempt, Caution, Hunt, Task, Work};
use crate::feed::Feed;
use crate::hold::Ended;
use crate::store::Store;

/// A delivery once tried, or why there is no sink to try it with.
type Tried = Result<Attempt, SinkError>;

impl<'a, S: Store> Tenure<'a, S> {
    /// Tries a task once, and lets the sink begin with what comes next. The inner error: the
    /// sink can't be opened.
    pub(crate) async fn deliver(
        &mut self,
        task: &Task,
        work: &Work<'_>,
        feed: &mut Feed,
    ) -> Result<Tried, Ended> {
        // What a destination has stored is compared with what was marked before: a mark of
        // this history would vouch for what is stored of another one.
        if self.of.connector.stores_position()
            && let Err(error) = self.opened().await?
        {
            return Ok(Err(error));
        }
        self.mark(task, work).await?;
        let tried = match self.goes_ahead(work) {
            true => {
                let next = self.upcoming(feed);
                self.attempt(&task.batch, next).await?
            }
            false => self.attempt(&task.batch, Upcoming::none()).await?,
        };
        if !matches!(tried, Ok(Ok(Delivery::All))) {
            feed.not_begun();
        }
        Ok(tried)
    }

    /// Whether the sink may begin with the batch after this one: nothing is in doubt, and
    /// nothing but that batch is to come next.
    fn goes_ahead(&self, work: &Work<'_>) -> bool {
        let of = self.of;
        work.is_plain()
            && self.is_calm()
            && self.is_unmarked()
            && self.caution == Caution::Over
            && self.replays.due_at().is_none()
            && !of.saves.interval().is_zero()
    }

    /// The batch that comes next, as long as nothing ends the tenure.
    fn upcoming<'f>(&self, feed: &'f mut Feed) -> Upcoming<'f>
    where
        'a: 'f,
    {
        let (hold, history) = (self.hold.clone(), self.history);
        Upcoming::new(async move {
            if let Ok(batch) = hold.until_stopped(feed.begin_next()).await
                && hold.store.history() == history
            {
                return batch;
            }
            // The loop itself finds out what has ended it.
            std::future::pending().await
        })
    }

    /// Writes down what is about to be delivered, for those who need that.
    async fn mark(&mut self, task: &Task, work: &Work<'_>) -> Result<(), Ended> {
        let end = task.batch.end();
        if self.begun.take() != Some(end) {
            self.hold.check().await?;
        }
        // A frozen range must come again as it was; and what the database could still lose
        // must not be stored elsewhere for good: the write flushes it.
        let of = &self.of.connector;
        let ahead = (of.frozen_ranges() || of.stores_position()) && self.marked != Some(end);
        if !(task.mark || ahead || self.hunt != Hunt::No) {
            return Ok(());
        }
        // What is suspected is the first event after the cursor, for the next holder as well.
        self.save_delivered().await?;
        if self.turn.is_none() && (task.mark || self.hunt != Hunt::No) {
            // One at a time in a process: so a death is laid to one sink only.
            let turn = Arc::clone(&self.of.hunting).acquire_owned();
            self.turn = self.hold.until_stopped(turn).await?.ok();
        }
        let mark = Mark {
            end,
            hunt: match self.hunt {
                Hunt::Until(end) => Some(end),
                Hunt::No | Hunt::NextBatch => None,
            },
            suspect: work.suspect(),
        };
        let (store, sink, lease) = (self.hold.store, self.hold.sink, self.hold.lease);
        self.hold
            .write(self.history, || store.mark(sink, lease, &mark))
            .await?;
        self.marked = Some(end);
        self.cursor.marked = self.cursor.marked.max(Some(end));
        self.cursor.suspect = mark.suspect;
        Ok(())
    }

    /// Delivers a batch once.
    pub(crate) async fn attempt(
        &mut self,
        batch: &Batch,
        next: Upcoming<'_>,
    ) -> Result<Tried, Ended> {
        if let Err(error) = self.opened().await? {
            return Ok(Err(error));
        }
        let mut sink = self.sink.take().expect("it was opened just now");
        let deadline = self.of.sink.delivery_timeout;
        let call = self.of.board.delivering(deadline);
        let delivery = attempt::deliver(&mut *sink, batch, next, deadline);
        let ((outcome, usable), saved) = self.saving_meanwhile(delivery).await?;
        call.attempted(batch, &outcome);
        // A destination that fails may be back in an older state, restored: it is asked
        // again how far it has come before it gets anything more.
        if usable && outcome.is_err() && self.of.connector.stores_position() {
            self.let_go_of(sink).await;
        } else {
            self.sink = usable.then_some(sink);
        }
        saved?;
        Ok(Ok(outcome))
    }

    /// Makes sure that the sink is open.
    async fn opened(&mut self) -> Result<Result<(), SinkError>, Ended> {
        if self.sink.is_none() {
            match self.open().await? {
                Ok(sink) => self.sink = Some(sink),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }
}
