//! Writing down what came of an attempt, and waiting if need be.
//!
//! Guards OB-7: a step's cursor move, its dead letters and what follows are written as
//! one settlement.

use std::time::Duration;

use outbox::{DeadLetter, Failure, Position, Settlement, Stage, Suspect, Then};
use outbox_sinks::SinkError;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, error, info, warn};

use super::Tenure;
use crate::board::State;
use crate::decide::{Backoff, Fault, Hunt, Next, Step, Work, limit, pause, room};
use crate::hold::Ended;
use crate::outage::News;
use crate::store::Store;

impl<S: Store> Tenure<'_, S> {
    /// Writes what follows from an attempt, and waits if need be.
    pub(crate) async fn settle(&mut self, mut step: Step, work: &Work<'_>) -> Result<(), Ended> {
        let buried = |dead: &DeadLetter| self.buried.contains(&dead.event.position());
        step.dead_letters.retain(|dead| !buried(dead));
        self.cursor.delivered = self.cursor.delivered.max(step.delivered);
        if let Some(pause) = self.blow_fuse(&mut step).await? {
            error!(
                sink = self.hold.sink,
                ?pause,
                "pausing: a person must decide"
            );
            self.write(step.up_to, step.dead_letters, pause).await?;
            return Err(Ended::Ordered);
        }
        let (up_to, dead_letters) = (step.up_to, step.dead_letters);
        match step.next {
            Next::Go if up_to.is_none() && dead_letters.is_empty() => Ok(()),
            Next::Go => match up_to.filter(|_| dead_letters.is_empty()) {
                Some(end) if self.may_wait(work) => {
                    self.delivered(end);
                    Ok(())
                }
                Some(_) | None => self.commit(up_to, dead_letters).await,
            },
            Next::BackOff(cause) if self.of.stop.is_cancelled() => {
                // A stop is no attempt.
                debug!(sink = self.hold.sink, ?cause, "delivery failed in a stop");
                if up_to.is_some() || !dead_letters.is_empty() {
                    self.commit(up_to, dead_letters).await?;
                }
                Err(Ended::Stopped)
            }
            Next::BackOff(cause) => {
                // Attempts are counted anew when a part was settled.
                let before = if step.progress { 0 } else { self.attempts };
                self.attempts = before.saturating_add(1);
                let suspect = work.suspect();
                self.back_off(up_to, dead_letters, &cause, suspect).await
            }
            Next::GiveUp(error) => Err(Ended::Fenced(error)),
            Next::Halt(reason) => {
                error!(
                    sink = self.hold.sink,
                    reason, "pausing: a person must decide"
                );
                self.write(up_to, dead_letters, Then::Pause(reason)).await?;
                Err(Ended::Ordered)
            }
        }
    }

    /// Why the sink has to pause instead of writing more dead letters, if it has to.
    async fn blow_fuse(&mut self, step: &mut Step) -> Result<Option<Then>, Ended> {
        if step.dead_letters.is_empty() {
            return Ok(None);
        }
        let poison = &self.of.sink.poison;
        let (store, sink) = (self.hold.store, self.hold.sink);
        let dead = step.dead_letters.iter();
        let these: Vec<_> = dead.map(|dead| dead.event.position()).collect();
        let counting = || store.recent_dead_letters(sink, poison.window, &these);
        let recent = self.hold.ask(counting).await?;
        let frozen = self.of.connector.frozen_ranges();
        Ok(limit(poison, frozen, step, room(poison, recent)))
    }

    /// Moves the cursor, and forgets earlier failures.
    pub(super) async fn commit(
        &mut self,
        up_to: Option<Position>,
        dead_letters: Vec<DeadLetter>,
    ) -> Result<(), Ended> {
        for dead in &dead_letters {
            let (position, code) = (dead.event.position(), &dead.code);
            let (sink, attempts) = (self.hold.sink, dead.attempts);
            warn!(sink, id = dead.event.id(), %position, code, attempts, "dead letter");
        }
        self.write(up_to, dead_letters, Then::Go).await?;
        self.attempts = 0;
        if let Some(lasted) = self.outage.ended() {
            let (sink, lasted_s) = (self.hold.sink, lasted.as_secs());
            info!(sink, lasted_s, "delivering again");
        }
        Ok(())
    }

    /// Writes a settlement.
    pub(super) async fn write(
        &mut self,
        up_to: Option<Position>,
        dead_letters: Vec<DeadLetter>,
        then: Then,
    ) -> Result<(), Ended> {
        // What was passed lies before the batch in hand: it goes along.
        let passed = self.passed.take().map(|passed| passed.end);
        let settlement = Settlement {
            up_to: up_to.or(passed),
            delivered: self
                .cursor
                .delivered
                .filter(|_| self.of.connector.stores_position()),
            dead_letters,
            then,
        };
        let (store, sink, lease) = (self.hold.store, self.hold.sink, self.hold.lease);
        self.hold
            .write(self.history, || store.settle(sink, lease, &settlement))
            .await?;
        self.written(settlement);
        Ok(())
    }

    /// Keeps in mind what the cursor row says after a settlement.
    pub(super) fn written(&mut self, settlement: Settlement) {
        self.of.board.settled(&settlement);
        self.turn = None;
        self.saved = settlement.up_to.unwrap_or(self.saved);
        if let Then::BackOff(failure) = settlement.then {
            self.cursor.suspect = failure.suspect;
        }
        self.cursor.suspect.take_if(|it| it.position <= self.saved);
        let dead_letters = settlement.dead_letters.iter();
        self.buried
            .extend(dead_letters.map(|dead| dead.event.position()));
        self.buried.retain(|position| *position > self.saved);
        if let Hunt::Until(end) = self.hunt
            && self.saved >= end
        {
            self.hunt = Hunt::No;
        }
    }

    /// Notes a failed attempt, and waits.
    async fn back_off(
        &mut self,
        up_to: Option<Position>,
        dead_letters: Vec<DeadLetter>,
        cause: &SinkError,
        suspect: Option<Suspect>,
    ) -> Result<(), Ended> {
        let retry_in = self.retry_in(self.attempts, cause);
        let error = describe(cause);
        self.log_failure(cause, &error, retry_in);
        let failure = Failure {
            attempts: self.attempts,
            retry_in,
            kind: cause.kind().as_str(),
            error,
            suspect: suspect.clone(),
        };
        let again_at = Instant::now() + retry_in;
        self.write(up_to, dead_letters, Then::BackOff(failure))
            .await?;
        self.wait_until(again_at, suspect.as_ref()).await
    }

    /// How long to wait after so many failed attempts in a row.
    pub(crate) fn retry_in(&self, attempts: u32, cause: &SinkError) -> Duration {
        let backoff = Backoff {
            attempts,
            kind: cause.kind(),
            retry_after: cause.retry_after(),
            jitter: fastrand::f64(),
        };
        pause(&self.of.sink.retry, &backoff)
    }

    /// Waits, and delivers replays meanwhile: live events may be held up for long. Not
    /// while an event that was sent ahead of its turn has to decide.
    pub(super) async fn wait_until(
        &mut self,
        again_at: Instant,
        suspect: Option<&Suspect>,
    ) -> Result<(), Ended> {
        let board = &self.of.board;
        let probing = suspect.is_some_and(|it| matches!(it.stage, Stage::Probing(_)));
        while let Some(due_at) = self.replays.due_at().filter(|_| !probing)
            && due_at < again_at
            && Instant::now() < again_at
        {
            let waiting = board.during(State::BackingOff, sleep_until(due_at));
            self.hold.until_stopped(waiting).await?;
            self.replay().await?;
        }
        let waiting = board.during(State::BackingOff, sleep_until(again_at));
        self.hold.until_stopped(waiting).await
    }

    fn log_failure(&mut self, error: &SinkError, reason: &str, retry_in: Duration) {
        let (sink, attempts) = (self.hold.sink, self.attempts);
        let retry_in = format_args!("{retry_in:.1?}");
        match (self.outage.failed(reason), error.kind().into()) {
            (News::Same, _) => debug!(sink, ?error, attempts, %retry_in, "delivery failed again"),
            (_, Fault::Misconfigured) => {
                error!(sink, ?error, %retry_in, "delivery needs a person");
            }
            (_, Fault::Unavailable | Fault::Failed | Fault::Fenced) => {
                warn!(sink, ?error, attempts, %retry_in, "delivery failed, backing off");
            }
        }
    }
}

/// The error with its causes and its advice, for people.
pub(crate) fn describe(error: &SinkError) -> String {
    match error.advice() {
        Some(advice) => format!("{} ({advice})", error.chain()),
        None => error.chain(),
    }
}
