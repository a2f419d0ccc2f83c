//! Delivering once: written down first, for those who need that.

use std::sync::Arc;

use outbox::Mark;
use outbox_sinks::{Batch, SinkError};

use super::Tenure;
use crate::attempt;
use crate::decide::{Attempt, Hunt, Task, Work};
use crate::hold::Ended;
use crate::store::Store;

/// A delivery once tried, or why there is no sink to try it with.
type Tried = Result<Attempt, SinkError>;

impl<S: Store> Tenure<'_, S> {
    /// Tries a task once. The inner error: the sink can't be opened.
    pub(crate) async fn deliver(&mut self, task: &Task, work: &Work<'_>) -> Result<Tried, Ended> {
        // What a destination has stored is compared with what was marked before: a mark of
        // this history would vouch for what is stored of another one.
        if self.of.connector.stores_position()
            && let Err(error) = self.opened().await?
        {
            return Ok(Err(error));
        }
        self.mark(task, work).await?;
        self.attempt(&task.batch).await
    }

    /// Writes down what is about to be delivered, for those who need that.
    async fn mark(&mut self, task: &Task, work: &Work<'_>) -> Result<(), Ended> {
        self.hold.check().await?;
        let end = task.batch.end();
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
    pub(crate) async fn attempt(&mut self, batch: &Batch) -> Result<Tried, Ended> {
        if let Err(error) = self.opened().await? {
            return Ok(Err(error));
        }
        let mut sink = self.sink.take().expect("it was opened just now");
        let deadline = self.of.sink.delivery_timeout;
        let call = self.of.board.delivering(deadline);
        let delivery = attempt::deliver(&mut *sink, batch, deadline);
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
