//! Working off one batch: what to deliver next, and what an attempt means.
//!
//! Guards OB-1 (the cursor moves only up to the first open event), OB-4 (nothing of a
//! key is tried before its predecessor is settled) and OB-6 (an event is blamed only
//! while the destination is seen to take others: see `trial`).

mod probe;
#[cfg(test)]
mod tests;
mod trial;
mod verdicts;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use outbox::{DeadLetter, Event, Position, Stage, Suspect};
use outbox_sinks::{Batch, Connector, SinkError};

use super::judge::{Attempt, Fault, Judged, Verdict, judge, refused, summary};
use super::queue::{Queue, apart};
use verdicts::Sorted;

/// How a sink wants its batches worked off.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// How often in a row an event must be refused alone.
    pub poison_attempts: u32,
    /// Whether ranges come again as they were, and are settled as a whole.
    pub frozen: bool,
    /// Whether a suspect may be compared with its own successor, after which it can
    /// never be sent again.
    pub probe_successors: bool,
    /// Who knows the keys.
    pub connector: &'a dyn Connector,
}

impl<'a> Rules<'a> {
    /// An event's key; `None` if the sink panics over it, and then nobody knows.
    fn key<'e>(&self, event: &'e Event) -> Option<Cow<'e, str>>
    where
        'a: 'e,
    {
        catch_unwind(AssertUnwindSafe(|| self.connector.key(event))).ok()
    }
}

/// What the last holder left behind.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// Failed deliveries of this batch.
    pub failures: u32,
    /// The event under suspicion.
    pub suspect: Option<Suspect>,
    /// Whether its process died while it delivered what it had in hand.
    pub died: bool,
    /// The end of that.
    pub in_hand: Option<Position>,
}

/// A batch that is being worked off.
#[derive(Debug)]
pub struct Work<'a> {
    rules: Rules<'a>,
    queue: Queue,
    suspect: Option<Suspect>,
    /// Failed deliveries of more than one event.
    failures: u32,
    /// Whether more was read already to find a neighbour.
    extended: bool,
    /// Whether the suspect must not be tried before another event went through.
    looking: bool,
    /// What it is compared with at the moment.
    probe: Option<Batch>,
    /// What it was compared with in vain.
    tried: BTreeSet<Position>,
    /// What can never be sent, known from comparing, and still has to have its turn.
    never: BTreeSet<Position>,
    /// Up to here no neighbour is asked: one of them may have killed the process.
    deadly_to: Option<Position>,
    /// How many were asked in this round.
    asked: u32,
    /// Another one is to be asked, or else this is why to back off.
    asking: Option<SinkError>,
    /// Whether there was nobody left to ask.
    exhausted: bool,
    /// An event that was refused, and one behind it that the same delivery took.
    witness: Option<(Position, Batch)>,
    /// Why a person must decide.
    halt: Option<String>,
}

/// What to do next.
#[derive(Debug)]
pub enum Todo {
    /// Deliver this.
    Deliver(Task),
    /// Nothing needs to be tried: this is decided.
    Settle(Step),
    /// There is nothing that could be tried before another event has appeared.
    AwaitNeighbour,
    /// The batch is done with.
    Nothing,
}

/// A delivery.
#[derive(Clone, Debug)]
pub struct Task {
    /// What to deliver.
    pub batch: Batch,
    /// Whether it must be written down first.
    pub mark: bool,
}

/// What follows from an attempt.
#[derive(Debug)]
pub struct Step {
    /// How far the cursor may move.
    pub up_to: Option<Position>,
    /// The last event that was delivered before any other of the attempt was not.
    pub delivered: Option<Position>,
    /// What goes to the dead letters.
    pub dead_letters: Vec<DeadLetter>,
    /// Whether less is open than before.
    pub progress: bool,
    /// What the loop does then.
    pub next: Next,
}

/// What the loop does after a step.
#[derive(Debug)]
pub enum Next {
    /// Goes on at once.
    Go,
    /// Waits because of this, and goes on.
    BackOff(SinkError),
    /// Gives the lease up: somebody newer owns the destination.
    GiveUp(SinkError),
    /// Pauses for this reason: a person must decide.
    Halt(String),
}

impl<'a> Work<'a> {
    /// Begins with a batch; the cursor may move to `end` once all of it is settled.
    #[must_use]
    pub fn new(rules: Rules<'a>, batch: Batch, end: Position, before: Before) -> Self {
        let (first, alone) = (batch.first().position(), batch.len() == 1);
        let known = before.suspect.is_some();
        let suspect = before.suspect.filter(|suspect| suspect.position == first);
        // What was in hand may be filtered out by now, or what is known may be about an
        // event further on: then nobody here is to blame.
        let is_here = before.in_hand.is_none_or(|end| first <= end);
        let died = before.died && is_here && (suspect.is_some() || !known);
        let mut work = Self {
            rules,
            queue: Queue::new(batch, end),
            suspect,
            failures: before.failures,
            extended: false,
            looking: false,
            probe: None,
            tried: BTreeSet::new(),
            never: BTreeSet::new(),
            deadly_to: None,
            asked: 0,
            asking: None,
            exhausted: false,
            witness: None,
            halt: None,
        };
        match (&work.suspect, died) {
            (Some(_), _) => work.queue.single_out(),
            (None, true) => work.queue.halve(),
            (None, false) => {}
        }
        work.after_restart(died, alone, before.in_hand);
        work
    }

    /// The event under suspicion, to be remembered.
    #[must_use]
    pub fn suspect(&self) -> Option<Suspect> {
        self.suspect.clone()
    }

    /// Whether it is one piece that nothing is known against: once that is delivered, all is.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let unharmed = self.suspect.is_none() && self.failures == 0 && self.halt.is_none();
        unharmed && !self.looking && self.asking.is_none() && self.queue.is_one_piece()
    }

    /// Whether nothing of it is open any more.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.queue.front().is_none()
    }

    /// Puts what was read next behind what is open.
    pub fn extend(&mut self, more: Option<Batch>, end: Position) {
        self.extended |= more.is_some();
        self.queue.extend(more, end);
    }

    /// What to do next.
    pub fn todo(&mut self) -> Todo {
        if self.is_done() {
            return Todo::Nothing;
        }
        if let Some(reason) = self.halt.take() {
            return Todo::Settle(Step::only(Next::Halt(reason)));
        }
        if let Some(error) = self.asking.take()
            && let Some(todo) = self.ask(error)
        {
            return todo;
        }
        if self.looking {
            match self.convict_or_look() {
                Some(todo) => return todo,
                None => self.looking = false,
            }
        }
        match self.suspect.as_ref().map(|suspect| suspect.stage) {
            Some(Stage::Probing(probe)) => self.probing(probe),
            Some(Stage::Comparing) => self.comparing(),
            Some(Stage::Confirming) => self.front(true),
            Some(Stage::Alone) | None => self.front(false),
        }
    }

    fn front(&self, mark: bool) -> Todo {
        match self.queue.front() {
            Some(piece) => Todo::Deliver(Task {
                batch: piece.clone(),
                mark,
            }),
            None => Todo::Nothing,
        }
    }

    /// What follows from the attempt at what [`Work::todo`] gave out last.
    pub fn after(&mut self, attempt: Attempt) -> Step {
        match (self.stage(), self.probe.take()) {
            (Some(Stage::Comparing), Some(probe)) => self.after_comparing(&probe, attempt),
            (Some(Stage::Probing(_)), Some(probe)) => self.after_probing(&probe, attempt),
            _ => self.after_front(attempt),
        }
    }

    /// What follows if the sink could not even be opened: that is nobody's fault.
    pub fn not_opened(&mut self, error: SinkError) -> Step {
        match error.kind().into() {
            Fault::Fenced => Step::only(Next::GiveUp(error)),
            Fault::Unavailable | Fault::Failed | Fault::Misconfigured => {
                self.acquit();
                Step::only(Next::BackOff(error))
            }
        }
    }

    fn after_front(&mut self, attempt: Attempt) -> Step {
        let Some(piece) = self.queue.pop() else {
            return Step::only(Next::Go);
        };
        match judge(&piece, attempt, self.rules.frozen) {
            Judged::All => self.settled(&piece, Vec::new()),
            Judged::Each(verdicts) => self.after_verdicts(&piece, verdicts),
            Judged::Failed(error) if piece.len() == 1 => {
                self.queue.push(piece);
                self.failed_alone(error)
            }
            Judged::Failed(error) => {
                self.queue.push(piece);
                self.failures = self.failures.saturating_add(1);
                if self.failures < 2 {
                    return Step::only(Next::BackOff(error));
                }
                self.queue.halve();
                Step::only(Next::Go)
            }
            Judged::Out(error) => {
                self.queue.push(piece);
                self.acquit();
                Step::only(Next::BackOff(error))
            }
            Judged::Fenced(error) => {
                self.queue.push(piece);
                Step::only(Next::GiveUp(error))
            }
        }
    }

    /// Everything in `piece` is delivered or a dead letter.
    fn settled(&mut self, piece: &Batch, dead_letters: Vec<DeadLetter>) -> Step {
        self.suspect = None;
        let dead = |event: &&Event| {
            let mut dead = dead_letters.iter().map(|dead| dead.event.position());
            dead.any(|dead| dead == event.position())
        };
        let delivered = piece.iter().take_while(|event| !dead(event)).last();
        Step {
            up_to: Some(self.queue.settled(piece.end())),
            delivered: delivered.map(Event::position),
            dead_letters,
            progress: true,
            next: Next::Go,
        }
    }

    fn after_verdicts(&mut self, piece: &Batch, verdicts: Vec<Verdict>) -> Step {
        let error = summary(&verdicts);
        let refusal = verdicts.iter().find_map(refused).cloned();
        let attempts = self.suspect.as_ref().map_or(0, |it| it.attempts) + 1;
        let sorted = Sorted::by(piece, verdicts, attempts);
        let (Some(rest), Some(error)) = (Batch::new(sorted.open), error) else {
            return self.settled(piece, sorted.dead_letters);
        };
        let progress = rest.len() < piece.len();
        self.queue.push_rest(piece, rest);
        if let (1, Some(refusal)) = (piece.len(), refusal) {
            return self.refused_alone(refusal.code(), refusal.reason().to_owned(), error);
        }
        // That they were refused says little of whether the destination takes others.
        self.tried.extend(&sorted.refused);
        let first = self.queue.first().map(Event::position);
        if first.is_some_and(|first| sorted.refused.contains(&first)) {
            // The rest waits behind it, so that nothing overtakes it (OB-4).
            self.queue.single_out();
            let witness = sorted.taken_after.and_then(|taken| apart(piece, taken));
            self.witness = first.zip(witness);
        }
        self.suspect = None;
        Step {
            up_to: sorted.up_to.map(|up_to| self.queue.settled(up_to)),
            delivered: sorted.delivered,
            dead_letters: sorted.dead_letters,
            progress,
            next: Next::BackOff(error),
        }
    }
}

impl Step {
    /// Nothing is settled by it.
    pub(crate) const fn only(next: Next) -> Self {
        Self {
            up_to: None,
            delivered: None,
            dead_letters: Vec::new(),
            progress: false,
            next,
        }
    }
}
