//! Delivering dead letters again, apart from the live flow.
//!
//! Replays and live batches take turns; a replay that fails delays no live event, and
//! the cursor's position is never touched (H1).

use outbox::{Replay, ReplayOutcome};
use outbox_sinks::{Batch, SinkError, Upcoming};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::decide::{Fault, Next, Replayed, replayed};
use crate::hold::Ended;
use crate::store::Store;
use crate::tenure::{Tenure, describe};

/// How many replays make a batch.
const MAX_REPLAYS: u32 = 100;

/// The replays that were ordered.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    /// When to deliver the next ones, if there are any.
    due_at: Option<Instant>,
    /// Whether live events had their turn.
    has_turn: bool,
    /// Whether to try them one by one: a batch of them failed.
    one_by_one: bool,
    /// Whether one of them may be what killed the last holder.
    beware: bool,
    /// Failed attempts in a row.
    attempts: u32,
    /// How many of them the sink could not explain.
    unexplained: u32,
}

impl Replays {
    /// Takes note of whether any are ordered.
    pub(crate) fn ordered(&mut self, any: bool) {
        self.due_at = any.then(Instant::now);
    }

    /// From here on each one is given up before it is tried: if it kills the process,
    /// the next holder does not try it again.
    pub(crate) const fn beware(&mut self) {
        self.beware = true;
    }

    pub(crate) const fn due_at(&self) -> Option<Instant> {
        self.due_at
    }

    /// Whether the next turn is theirs, if they are due.
    pub(crate) const fn has_turn(&self) -> bool {
        self.has_turn
    }

    /// Takes note that live events had their turn.
    pub(crate) const fn live_had_turn(&mut self) {
        self.has_turn = true;
    }

    const fn limit(&self) -> u32 {
        if self.one_by_one || self.beware {
            1
        } else {
            MAX_REPLAYS
        }
    }
}

impl<S: Store> Tenure<'_, S> {
    /// Delivers the next replays, or finds that there are none left.
    pub(crate) async fn replay(&mut self) -> Result<(), Ended> {
        self.replays.has_turn = false;
        let (store, sink) = (self.hold.store, self.hold.sink);
        let most = u32::try_from(self.limits().max_events).unwrap_or(u32::MAX);
        let limit = self.replays.limit().min(most);
        let waiting = self.hold.ask(|| store.replays(sink, limit)).await?;
        let events: Vec<_> = waiting.iter().map(|replay| replay.event.clone()).collect();
        let Some(batch) = Batch::new(events).map(Batch::apart) else {
            self.replays.due_at = None;
            (self.replays.one_by_one, self.replays.beware) = (false, false);
            return Ok(());
        };
        if self.replays.beware {
            self.write_outcomes(&all(&waiting, &given_up())).await?;
        }
        let unexplained = self.replays.unexplained;
        let Replayed {
            mut outcomes,
            one_by_one,
            next,
        } = match self.attempt(&batch, Upcoming::none()).await {
            Err(ended) => {
                if self.replays.beware {
                    // A stop is no death. Without the lease it can't be taken back.
                    let again = all(&waiting, &ReplayOutcome::Postponed);
                    self.write_outcomes(&again).await?;
                }
                return Err(ended);
            }
            Ok(Ok(attempt)) => replayed(&waiting, &batch, attempt, unexplained),
            Ok(Err(error)) => Replayed {
                outcomes: Vec::new(),
                one_by_one: false,
                next: Next::BackOff(error),
            },
        };
        self.replays.one_by_one |= one_by_one;
        if outcomes.is_empty() && self.replays.beware {
            outcomes = all(&waiting, &ReplayOutcome::Postponed);
        }
        if !outcomes.is_empty() {
            self.write_outcomes(&outcomes).await?;
            let took = |(_, outcome): &&(i64, ReplayOutcome)| *outcome == ReplayOutcome::Delivered;
            let delivered = outcomes.iter().filter(took).count();
            info!(
                sink,
                tried = outcomes.len(),
                delivered,
                "dead letters replayed"
            );
        }
        match next {
            Next::Go => (self.replays.attempts, self.replays.unexplained) = (0, 0),
            Next::BackOff(error) => self.back_off_replays(&error),
            Next::GiveUp(error) => return Err(Ended::Fenced(error)),
            Next::Halt(_) => {}
        }
        Ok(())
    }

    fn back_off_replays(&mut self, error: &SinkError) {
        self.replays.attempts = self.replays.attempts.saturating_add(1);
        if Fault::from(error.kind()) == Fault::Failed {
            self.replays.unexplained = self.replays.unexplained.saturating_add(1);
        }
        let retry_in = self.retry_in(self.replays.attempts, error);
        let (sink, error) = (self.hold.sink, describe(error));
        warn!(sink, error, ?retry_in, "replays failed, backing off");
        self.replays.due_at = Some(Instant::now() + retry_in);
    }

    async fn write_outcomes(&mut self, outcomes: &[(i64, ReplayOutcome)]) -> Result<(), Ended> {
        let (store, sink, lease) = (self.hold.store, self.hold.sink, self.hold.lease);
        let writing = || store.settle_replays(sink, lease, outcomes);
        self.hold.write(self.history, writing).await?;
        self.of.board.replayed(outcomes);
        Ok(())
    }
}

/// What stands if the process dies in the attempt.
fn given_up() -> ReplayOutcome {
    ReplayOutcome::Refused {
        code: "CRASHED".to_owned(),
        error: "the process died while this replay was in hand".to_owned(),
    }
}

fn all(replays: &[Replay], outcome: &ReplayOutcome) -> Vec<(i64, ReplayOutcome)> {
    let outcomes = replays.iter().map(|replay| (replay.id, outcome.clone()));
    outcomes.collect()
}
