//! The trial of an event that was refused alone.
//!
//! Guards OB-6: an event is blamed only while the destination is seen to take others.
//!
//! ```text
//! alone, refused `attempts` times in a row
//!   ├─ an event of another key goes through ── one last attempt ─┬─ refused: dead letter
//!   │                                                            └─ taken: it was an outage
//!   ├─ none there, but one after it was taken when it was first refused: dead letter
//!   ├─ only its own key follows: the successor, written down first
//!   │     ├─ goes through: dead letter, never sent again
//!   │     ├─ refused or failed: an outage
//!   │     └─ not known: the successor again
//!   └─ nothing follows: wait
//! ```
//!
//! The last attempt is what tells a poison event from an outage that ended just then.
//! The suspect's own successor can't have one after it: the suspect would follow it
//! (OB-4).

use outbox::{DeadLetter, Position, Stage, Suspect};
use outbox_sinks::{Batch, SinkError, Verdict};

use super::super::judge::{Attempt, Judged, judge};
use super::{Next, Step, Task, Todo, Work};

/// The code of a dead letter during whose delivery the process died.
const CRASHED: &str = "CRASHED";

impl Work<'_> {
    /// A death counts as a refusal of the one event that was in hand. Without a death
    /// the suspect is tried once more before anything else, except after a probe: the
    /// suspect could follow its successor.
    /// `alone`: whether the batch was that one event, before it was cut.
    pub(super) fn after_restart(&mut self, died: bool, alone: bool) {
        match self.suspect.as_mut() {
            Some(suspect) if died => match suspect.stage {
                Stage::Alone | Stage::Confirming => self.crashed(),
                // Another neighbour next time: this one may be what kills.
                Stage::Comparing => {
                    suspect.attempts = suspect.attempts.saturating_add(1);
                    suspect.stage = Stage::Alone;
                    self.looking = true;
                }
                Stage::Probing(_) => {}
            },
            Some(suspect) => match suspect.stage {
                Stage::Alone | Stage::Probing(_) => {}
                Stage::Comparing | Stage::Confirming => suspect.stage = Stage::Alone,
            },
            None if died && alone => self.crashed(),
            None => {}
        }
        // What is known to kill is not tried again before another event went through.
        if self.stage() == Some(Stage::Alone) && self.used_up() {
            self.looking |= self.suspect.as_ref().is_some_and(|it| it.code == CRASHED);
        }
    }

    fn crashed(&mut self) {
        let error = "the process died while this event alone was being delivered";
        self.blame(CRASHED, error.to_owned());
        self.looking = self.used_up();
    }

    /// Whether more should be read, as far as it is there already: the suspect's
    /// attempts are about to be used up, and every other key that follows had its turn.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        let lacking = |suspect: &Suspect| match suspect.stage {
            Stage::Alone => {
                let refused_again = suspect.attempts.saturating_add(1);
                let round = refused_again.checked_sub(self.rules.poison_attempts);
                round.is_some_and(|round| self.neighbours().len() <= turns(round))
            }
            Stage::Probing(_) => self.queue.successor().is_none(),
            Stage::Comparing | Stage::Confirming => false,
        };
        let has_room = || self.queue.bytes_behind() < self.rules.max_bytes;
        self.suspect.as_ref().is_some_and(lacking) && has_room()
    }

    /// After deaths: the suspect is not tried again before another event went through,
    /// and not at all if it had been its last attempt.
    pub(super) fn convict_or_look(&mut self) -> Option<Todo> {
        let suspect = self.suspect.as_ref()?;
        if suspect.stage == Stage::Confirming {
            return Some(Todo::Settle(self.convict()));
        }
        if !self.look_for_neighbour() {
            return Some(Todo::AwaitNeighbour);
        }
        None
    }

    pub(super) fn comparing(&mut self) -> Todo {
        match self.probe.and_then(|probe| self.queue.probe(probe)) {
            Some(batch) => Todo::Deliver(Task { batch, mark: false }),
            None => {
                self.set_stage(Stage::Alone);
                self.front(false)
            }
        }
    }

    pub(super) fn probing(&mut self, probe: Position) -> Todo {
        match self.queue.probe(probe) {
            Some(batch) => {
                self.probe = Some(probe);
                Todo::Deliver(Task { batch, mark: true })
            }
            None if self.queue.successor().is_none() => Todo::AwaitNeighbour,
            // It is not there any more: somebody has changed the filter.
            None => {
                self.set_stage(Stage::Alone);
                self.front(false)
            }
        }
    }

    /// The first event was refused when it was tried alone.
    pub(super) fn refused_alone(&mut self, code: &str, reason: String, error: SinkError) -> Step {
        let confirmed = self.stage() == Some(Stage::Confirming);
        self.blame(code, reason);
        if confirmed {
            return self.convict();
        }
        self.set_stage(Stage::Alone);
        if self.used_up() {
            if self.neighbours().is_empty() && self.is_witnessed() {
                return self.convict();
            }
            if self.look_for_neighbour() {
                return Step::only(Next::Go);
            }
        }
        Step::only(Next::BackOff(error))
    }

    pub(super) fn after_comparing(&mut self, probe: Position, attempt: Attempt) -> Step {
        self.probe = None;
        self.set_stage(Stage::Alone);
        let Some(batch) = self.queue.probe(probe) else {
            return Step::only(Next::Go);
        };
        match taken(&batch, attempt) {
            Ok(()) => {
                self.took(probe);
                self.set_stage(Stage::Confirming);
                Step::only(Next::Go)
            }
            Err(Not::Taken(error) | Not::Known(error)) => Step::only(Next::BackOff(error)),
            Err(Not::Ours(error)) => Step::only(Next::GiveUp(error)),
        }
    }

    pub(super) fn after_probing(&mut self, probe: Position, attempt: Attempt) -> Step {
        self.probe = None;
        let Some(batch) = self.queue.probe(probe) else {
            return Step::only(Next::Go);
        };
        match taken(&batch, attempt) {
            Ok(()) => {
                self.took(probe);
                self.convict()
            }
            Err(Not::Taken(error)) => {
                self.set_stage(Stage::Alone);
                Step::only(Next::BackOff(error))
            }
            Err(Not::Known(error)) => Step::only(Next::BackOff(error)),
            Err(Not::Ours(error)) => Step::only(Next::GiveUp(error)),
        }
    }

    /// An event ahead of its turn is durable. It need not be sent again, except within
    /// a frozen range.
    fn took(&mut self, probe: Position) {
        if !self.rules.frozen {
            self.queue.remove(probe);
        }
    }

    /// Sends the suspect to the dead letters.
    fn convict(&mut self) -> Step {
        self.looking = false;
        let (Some(suspect), Some(piece)) = (self.suspect.take(), self.queue.pop()) else {
            return Step::only(Next::Go);
        };
        let dead_letter = DeadLetter {
            event: piece.first().clone(),
            code: suspect.code,
            error: suspect.error,
            attempts: suspect.attempts,
        };
        self.settled(&piece, vec![dead_letter])
    }

    /// Nothing is known against the suspect any more.
    pub(super) fn acquit(&mut self) {
        if self
            .stage()
            .is_some_and(|stage| !matches!(stage, Stage::Probing(_)))
        {
            self.suspect = None;
        }
    }

    fn blame(&mut self, code: &str, error: String) {
        let Some(first) = self.queue.first() else {
            return;
        };
        let suspect = self.suspect.get_or_insert_with(|| Suspect {
            position: first.position(),
            attempts: 0,
            stage: Stage::Alone,
            code: String::new(),
            error: String::new(),
        });
        suspect.attempts = suspect.attempts.saturating_add(1);
        code.clone_into(&mut suspect.code);
        suspect.error = error;
    }

    fn used_up(&self) -> bool {
        let attempts = self.suspect.as_ref().map_or(0, |it| it.attempts);
        attempts >= self.rules.poison_attempts.max(1)
    }

    /// Chooses whom to compare the suspect with, if there is anybody.
    fn look_for_neighbour(&mut self) -> bool {
        let others = self.neighbours();
        let attempts = self.suspect.as_ref().map_or(0, |it| it.attempts);
        let round = attempts.saturating_sub(self.rules.poison_attempts);
        let turn = turns(round) % others.len().max(1);
        if let Some(other) = others.get(turn) {
            self.probe = Some(*other);
            self.set_stage(Stage::Comparing);
        } else if let Some(successor) = self.queue.successor() {
            self.probe = Some(successor);
            self.set_stage(Stage::Probing(successor));
        } else {
            return false;
        }
        true
    }

    /// Whether the destination took another event at the time it refused this one.
    fn is_witnessed(&self) -> bool {
        let suspect = self.suspect.as_ref().map(|suspect| suspect.position);
        suspect.is_some() && suspect == self.witnessed
    }

    fn neighbours(&self) -> Vec<Position> {
        self.queue.neighbours(|event| self.rules.key(event))
    }

    pub(super) fn stage(&self) -> Option<Stage> {
        self.suspect.as_ref().map(|suspect| suspect.stage)
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(suspect) = &mut self.suspect {
            suspect.stage = stage;
        }
    }
}

/// Why an event ahead of its turn did not go through.
enum Not {
    /// The destination did not take it.
    Taken(SinkError),
    /// Whether it did is not known.
    Known(SinkError),
    /// Somebody newer owns the destination.
    Ours(SinkError),
}

fn turns(round: u32) -> usize {
    usize::try_from(round).unwrap_or(usize::MAX)
}

/// Whether the destination took a batch of one.
fn taken(batch: &Batch, attempt: Attempt) -> Result<(), Not> {
    match judge(batch, attempt, true) {
        Judged::All => Ok(()),
        Judged::Each(verdicts) => match verdicts.first() {
            Some(Verdict::Delivered) => Ok(()),
            Some(Verdict::Undeliverable(refusal) | Verdict::Refused(refusal)) => {
                let what = format!("its neighbour was refused as well: {refusal}");
                Err(Not::Taken(SinkError::failed(what)))
            }
            Some(Verdict::Unconfirmed) | None => {
                let what = "an event is not confirmed";
                Err(Not::Known(SinkError::unavailable(what)))
            }
        },
        Judged::Failed(error) => Err(Not::Taken(error)),
        Judged::Out(error) => Err(Not::Known(error)),
        Judged::Fenced(error) => Err(Not::Ours(error)),
    }
}
