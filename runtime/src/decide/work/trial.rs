//! The trial of an event that was refused alone.
//!
//! Guards OB-6: an event is blamed only while the destination is seen to take others.
//!
//! ```text
//! alone, refused `attempts` times in a row
//!   ├─ an event of another key goes through ── one last attempt ─┬─ refused: dead letter
//!   │                                                            └─ taken: it was an outage
//!   ├─ none of several does: an outage, or more poison: others in the next round
//!   ├─ only its own key follows: the successor, written down first
//!   │     ├─ goes through: dead letter, never sent again
//!   │     ├─ refused or failed: an outage
//!   │     └─ not known: the successor again
//!   └─ nothing follows: wait
//! ```
//!
//! The last attempt is what tells a poison event from an outage that ended just then.
//! After the suspect's own successor there can be none: the suspect would follow it
//! (OB-4). An event behind the suspect that was taken in the very delivery in which the
//! suspect was refused may be sent once more for comparison, if no other is there.

use outbox::{DeadLetter, Position, Stage, Suspect};
use outbox_sinks::{Batch, SinkError};

use super::super::judge::{Attempt, timed_out};
use super::probe::{Not, taken};
use super::{Next, Step, Task, Todo, Work};

/// The code of a dead letter whose sink could not say why.
const FAILED: &str = "FAILED";
/// The code of one whose deliveries never ended in time.
const TIMED_OUT: &str = "TIMED_OUT";
/// The code of one during whose delivery the process died.
const CRASHED: &str = "CRASHED";

/// How many neighbours are asked in one round.
const MAX_ASKED: u32 = 8;
/// While less than this is open, more may be read to find a neighbour, in bytes.
const MAX_OPEN: usize = 1024 * 1024;

impl Work<'_> {
    /// A death counts as a refusal of the one event that was in hand. Without a death
    /// the suspect is tried once more before anything else, except after a probe: the
    /// suspect could follow its successor.
    pub(super) fn after_restart(&mut self, died: bool, alone: bool, in_hand: Option<Position>) {
        match (self.stage(), died) {
            (Some(Stage::Confirming), true) if self.has_crashed() => self.looking = true,
            (Some(Stage::Alone | Stage::Confirming), true) => self.crashed(),
            (Some(Stage::Comparing), true) => {
                // Another neighbour next time: this one may be what kills, and those
                // before it may have done so earlier.
                self.deadly_to = in_hand;
                self.set_stage(Stage::Alone);
                self.looking = true;
                self.count_without_end();
            }
            (Some(Stage::Probing(_)), true) => self.count_without_end(),
            (Some(Stage::Comparing | Stage::Confirming), false) => self.set_stage(Stage::Alone),
            (Some(Stage::Alone | Stage::Probing(_)), false) => {}
            (None, died) => {
                if died && alone {
                    self.crashed();
                }
            }
        }
        self.spare_what_kills();
    }

    fn crashed(&mut self) {
        let error = "the process died while this event alone was being delivered";
        self.blame(CRASHED, error.to_owned());
        self.set_stage(Stage::Alone);
    }

    /// Counts what nothing can be learned from; at the second limit a person must decide.
    fn count_without_end(&mut self) {
        let limit = self.rules.poison_attempts.max(1).saturating_mul(2);
        let Some(suspect) = &mut self.suspect else {
            return;
        };
        suspect.attempts = suspect.attempts.saturating_add(1);
        if suspect.attempts >= limit {
            self.halt = Some(format!(
                "the event at {} was refused ({}: {}), and the deliveries of those after it kill \
                 the process or never end: nothing can tell which of them is to blame",
                suspect.position, suspect.code, suspect.error
            ));
        }
    }

    /// What is known to kill is not tried again before another event went through.
    fn spare_what_kills(&mut self) {
        if self.stage() == Some(Stage::Alone) && self.has_crashed() && self.used_up() {
            self.looking = true;
        }
    }

    /// Whether more should be read, as far as it is there already: the suspect's
    /// attempts are about to be used up, and nothing is left to compare it with.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        let lacking = match (self.stage(), &self.suspect) {
            (Some(Stage::Alone), Some(suspect)) => {
                let soon = suspect.attempts.saturating_add(1) >= self.rules.poison_attempts;
                soon && self.untried().is_empty()
            }
            (Some(Stage::Probing(probe)), _) => self.queue.probe(probe).is_none(),
            _ => false,
        };
        lacking && self.queue.payload_bytes() < MAX_OPEN
    }

    /// After deaths: the suspect is not tried again before another event went through,
    /// and not at all if it had been its last attempt.
    pub(super) fn convict_or_look(&mut self) -> Option<Todo> {
        if self.stage() == Some(Stage::Confirming) {
            return Some(Todo::Settle(self.convict()));
        }
        // If all were asked in vain, they are asked again.
        for _ in 0..2 {
            self.begin_round();
            if self.suspect.is_none() || self.ask_next() {
                return None;
            }
        }
        if self.queue.payload_bytes() < MAX_OPEN {
            return Some(Todo::AwaitNeighbour);
        }
        let position = self.suspect.as_ref()?.position;
        let reason = format!(
            "the event at {position} kills the process, and nothing that follows may be sent \
             ahead of it"
        );
        Some(Todo::Settle(Step::only(Next::Halt(reason))))
    }

    pub(super) fn comparing(&mut self) -> Todo {
        match self.probe.clone() {
            Some(batch) => Todo::Deliver(Task { batch, mark: false }),
            None => {
                self.set_stage(Stage::Alone);
                self.front(false)
            }
        }
    }

    pub(super) fn probing(&mut self, probe: Position) -> Todo {
        self.probe = self.queue.probe(probe);
        match self.probe.clone() {
            Some(batch) => Todo::Deliver(Task { batch, mark: true }),
            None if !self.extended => Todo::AwaitNeighbour,
            // It is not there any more: somebody has changed the filter.
            None => {
                self.set_stage(Stage::Alone);
                self.front(false)
            }
        }
    }

    /// The first event failed when it was tried alone, and the sink can't say why.
    pub(super) fn failed_alone(&mut self, error: SinkError) -> Step {
        let code = if timed_out(&error) { TIMED_OUT } else { FAILED };
        self.refused_alone(code, error.chain(), error)
    }

    /// The first event was refused when it was tried alone.
    pub(super) fn refused_alone(&mut self, code: &str, reason: String, error: SinkError) -> Step {
        let confirmed = self.stage() == Some(Stage::Confirming);
        self.blame(code, reason);
        if confirmed {
            return self.convict();
        }
        self.set_stage(Stage::Alone);
        if !self.used_up() {
            return Step::only(Next::BackOff(error));
        }
        self.begin_round();
        self.ask_or_back_off(error)
    }

    /// Has the next neighbour asked, after more was read if need be; or the loop backs off
    /// because of `error`.
    fn ask_or_back_off(&mut self, error: SinkError) -> Step {
        if self.asked >= MAX_ASKED {
            return Step::only(Next::BackOff(error));
        }
        self.asking = Some(error);
        Step::only(Next::Go)
    }

    /// Asks the next neighbour, or backs off if nobody is left.
    pub(super) fn ask(&mut self, error: SinkError) -> Option<Todo> {
        if self.ask_next() {
            return None;
        }
        self.spare_what_kills();
        Some(Todo::Settle(Step::only(Next::BackOff(error))))
    }

    pub(super) fn after_comparing(&mut self, probe: &Batch, attempt: Attempt) -> Step {
        self.set_stage(Stage::Alone);
        let event = probe.first();
        self.tried.insert(event.position());
        let step = match taken(probe, attempt) {
            Ok(()) => {
                self.took(event.position());
                self.set_stage(Stage::Confirming);
                return Step::only(Next::Go);
            }
            Err(Not::Ever(dead_letter)) => self.bury(*dead_letter),
            Err(Not::Taken(error)) => self.ask_or_back_off(error),
            Err(Not::Known(error)) => Step::only(Next::BackOff(error)),
            Err(Not::Ours(error)) => Step::only(Next::GiveUp(error)),
        };
        if self.asking.is_none() {
            self.spare_what_kills();
        }
        step
    }

    pub(super) fn after_probing(&mut self, probe: &Batch, attempt: Attempt) -> Step {
        let event = probe.first();
        match taken(probe, attempt) {
            Ok(()) => {
                self.took(event.position());
                self.convict()
            }
            Err(Not::Ever(dead_letter)) => {
                self.set_stage(Stage::Alone);
                self.bury(*dead_letter)
            }
            Err(Not::Taken(error)) => {
                self.set_stage(Stage::Alone);
                self.spare_what_kills();
                Step::only(Next::BackOff(error))
            }
            Err(Not::Known(error)) => {
                if timed_out(&error) {
                    self.count_without_end();
                }
                Step::only(Next::BackOff(error))
            }
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

    /// An event ahead of its turn can never be sent: it goes at once, and another one is
    /// asked. Within a frozen range it goes when its turn comes.
    fn bury(&mut self, dead_letter: DeadLetter) -> Step {
        let position = dead_letter.event.position();
        self.never.insert(position);
        let dead_letters = if self.rules.frozen {
            Vec::new()
        } else {
            self.queue.remove(position);
            vec![dead_letter]
        };
        let what = "the event it was compared with can never be sent";
        Step {
            dead_letters,
            ..self.ask_or_back_off(SinkError::failed(what))
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

    /// Nothing is known against the suspect any more, except what no outage does.
    pub(super) fn acquit(&mut self) {
        match self.stage() {
            Some(Stage::Probing(_)) | None => {}
            Some(Stage::Alone | Stage::Comparing | Stage::Confirming) if self.has_crashed() => {
                self.set_stage(Stage::Alone);
                self.spare_what_kills();
            }
            Some(Stage::Alone | Stage::Comparing | Stage::Confirming) => self.suspect = None,
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

    fn has_crashed(&self) -> bool {
        self.suspect.as_ref().is_some_and(|it| it.code == CRASHED)
    }

    /// Begins a round of comparisons.
    fn begin_round(&mut self) {
        self.asked = 0;
        if self.exhausted && self.untried().is_empty() {
            // All of them were tried: the outage may be over.
            self.tried.clear();
        }
        self.exhausted = false;
    }

    /// Chooses whom to compare the suspect with next, if anybody is left.
    fn ask_next(&mut self) -> bool {
        self.asked = self.asked.saturating_add(1);
        if let Some(other) = self.untried().first() {
            self.probe = self.queue.probe(*other);
            self.set_stage(Stage::Comparing);
        } else if let Some(witness) = self.witness() {
            self.probe = Some(witness);
            self.set_stage(Stage::Comparing);
        } else if let Some(successor) = self.successor() {
            self.set_stage(Stage::Probing(successor));
        } else {
            self.exhausted = true;
            return false;
        }
        true
    }

    /// The events of other keys that were not asked yet.
    fn untried(&self) -> Vec<Position> {
        self.neighbours(|event| !self.tried.contains(&event))
    }

    /// An event after the suspect that was taken when the suspect was first refused.
    fn witness(&self) -> Option<Batch> {
        let suspect = self.suspect.as_ref()?.position;
        let (of, witness) = self.witness.as_ref()?;
        let untried = !self.tried.contains(&witness.first().position());
        (*of == suspect && untried).then(|| witness.clone())
    }

    /// The event right after the suspect, if it has the suspect's own key and no other
    /// key follows. Not after timeouts: they may be an outage that ends in the probe.
    fn successor(&self) -> Option<Position> {
        let suspect = self.suspect.as_ref()?;
        let may = self.rules.probe_successors && suspect.code != TIMED_OUT;
        let alone = self.neighbours(|_| true).is_empty();
        let successor = self.queue.successor(|event| !self.never.contains(&event))?;
        (may && alone && !self.is_deadly(successor)).then_some(successor)
    }

    /// Events of other keys that may be sent ahead of the suspect.
    fn neighbours(&self, wanted: impl Fn(Position) -> bool) -> Vec<Position> {
        self.queue.neighbours(
            |event| self.rules.key(event),
            &self.never,
            |event| !self.is_deadly(event) && wanted(event),
        )
    }

    fn is_deadly(&self, event: Position) -> bool {
        self.deadly_to.is_some_and(|end| event <= end)
    }

    pub(super) fn stage(&self) -> Option<Stage> {
        self.suspect.as_ref().map(|suspect| suspect.stage)
    }

    pub(super) fn set_stage(&mut self, stage: Stage) {
        if let Some(suspect) = &mut self.suspect {
            suspect.stage = stage;
        }
    }
}
