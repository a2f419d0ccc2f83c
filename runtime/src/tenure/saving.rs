//! What is done with and not yet written: the cursor's row trails by it.
//!
//! Guards OB-1: what is here is delivered or filtered out, and lies before the batch in
//! hand, so that whatever is written next takes it along. It is lost with the lease and with
//! the history, and what was delivered comes again then.

use std::pin::pin;
use std::time::Duration;

use outbox::{Advance, Position, Settlement, Then};
use tokio::time::{Instant, sleep_until};

use super::Tenure;
use crate::decide::{Hunt, Work};
use crate::hold::Ended;
use crate::store::Store;

/// How far the cursor may move beyond what its row says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub(super) end: Position,
    /// By when it is written.
    pub(super) save_at: Instant,
    /// Whether any of it was delivered. Otherwise it was filtered out, and read again it
    /// comes to nothing.
    delivered: bool,
}

impl<S: Store> Tenure<'_, S> {
    /// Takes note that everything up to `end` was filtered out.
    pub(crate) fn pass(&mut self, end: Position) {
        if end > self.saved {
            let save_at = Instant::now() + self.of.worker.cursor_idle_save;
            self.passes(end, save_at, false);
        }
    }

    /// Takes note that everything up to `end` was delivered.
    pub(super) fn delivered(&mut self, end: Position) {
        self.passes(end, self.of.saves.due_at(), true);
    }

    fn passes(&mut self, end: Position, save_at: Instant, delivered: bool) {
        let before = self.passed.take();
        self.passed = Some(Passed {
            end,
            save_at: before.map_or(save_at, |it| it.save_at.min(save_at)),
            delivered: delivered || before.is_some_and(|it| it.delivered),
        });
    }

    /// Whether a batch that was delivered may be written later: nothing but the cursor's
    /// move follows from it, and nobody counts on the row meanwhile.
    pub(super) fn may_wait(&mut self, work: &Work<'_>) -> bool {
        let of = self.of;
        let plain = work.is_done() && work.suspect().is_none() && self.is_calm();
        // Nothing that was read before a loss is delivered after it: the write finds out.
        let current = self.hold.store.history() == self.history;
        let cautious = self.caution.wants_write(Instant::now());
        plain && self.is_unmarked() && current && !cautious && !of.saves.interval().is_zero()
    }

    /// Whether the row says nothing of a failure, nor of what was settled ahead of it.
    pub(super) fn is_calm(&self) -> bool {
        self.attempts == 0 && self.cursor.suspect.is_none() && self.buried.is_empty()
    }

    /// Whether no batch is marked. What is marked is taken for what follows the cursor's row:
    /// nothing may lie between.
    pub(super) fn is_unmarked(&self) -> bool {
        let connector = &self.of.connector;
        self.hunt == Hunt::No
            && self.turn.is_none()
            && !connector.frozen_ranges()
            && !connector.stores_position()
    }

    /// When there is something to save, if there is.
    pub(super) fn save_at(&self) -> Option<Instant> {
        self.passed.map(|it| it.save_at)
    }

    /// Writes what was passed, if anything was.
    pub(super) async fn save(&mut self) -> Result<(), Ended> {
        let Some(Passed { end, .. }) = self.passed else {
            return Ok(());
        };
        let (sink, token) = (self.hold.sink.to_owned(), self.hold.lease.token);
        let up_to = end;
        let advance = Advance { sink, token, up_to };
        let (saves, history) = (&self.of.saves, self.history);
        let saving = || saves.save(history, advance.clone());
        if !self.hold.ask(saving).await? {
            return self.commit(Some(end), Vec::new()).await;
        }
        self.passed = None;
        self.written(Settlement {
            up_to: Some(end),
            delivered: None,
            dead_letters: Vec::new(),
            then: Then::Go,
        });
        Ok(())
    }

    /// Writes what was delivered, if anything was: before the row is marked with what comes
    /// after it.
    pub(super) async fn save_delivered(&mut self) -> Result<(), Ended> {
        match self.passed {
            Some(passed) if passed.delivered => self.save().await,
            Some(_) | None => Ok(()),
        }
    }

    /// Runs a delivery to its end, and writes meanwhile what falls due. What came of the
    /// writing stands beside what came of the delivery: that is known in any case.
    pub(super) async fn saving_meanwhile<T>(
        &mut self,
        delivery: impl Future<Output = T>,
    ) -> Result<(T, Result<(), Ended>), Ended> {
        let bounds = self.hold.bounds();
        let mut delivery = pin!(bounds.to_the_end(Duration::ZERO, delivery));
        tokio::select! {
            biased;
            done = &mut delivery => return Ok((done?, Ok(()))),
            () = at(self.save_at()) => {}
        }
        let saving = async {
            match self.save().await {
                // Without the lease nothing may be delivered any more.
                Err(Ended::LeaseLost) => Err(Ended::LeaseLost),
                saved => Ok(saved),
            }
        };
        tokio::try_join!(&mut delivery, saving)
    }
}

/// Waits until then; for ever if there is no such time.
pub(super) async fn at(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => std::future::pending().await,
    }
}
