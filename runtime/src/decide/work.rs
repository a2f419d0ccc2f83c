//! Working off one batch: what to deliver next, and what an attempt means.
//!
//! Guards OB-1 (the cursor moves only up to the first open event), OB-4 (nothing of a
//! key is tried before its predecessor is settled) and OB-6 (an event is blamed only
//! while the destination is seen to take others). The trial of a suspect:
//!
//! ```text
//! alone, refused `attempts` times in a row
//!   ├─ an event of another key goes through ── one last attempt ─┬─ refused: dead letter
//!   │                                                            └─ taken: it was an outage
//!   ├─ only its own key follows: the successor, written down first
//!   │     ├─ goes through: dead letter, never sent again
//!   │     ├─ refused or failed: an outage
//!   │     └─ not known: the successor again
//!   └─ nothing follows: wait
//! ```
//!
//! The last attempt is what tells a poison event from an outage that ended just then.

use std::borrow::Cow;

use outbox::{DeadLetter, Event, Position, Stage, Suspect};
use outbox_sinks::{Batch, Connector, SinkError, Verdict};

use super::judge::{Attempt, Judged, judge, refused, summary};
use super::queue::Queue;

/// The code of a dead letter whose sink could not say why.
const FAILED: &str = "FAILED";
/// The code of a dead letter during whose delivery the process died.
const CRASHED: &str = "CRASHED";

/// How a sink wants its batches worked off.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// How often in a row an event must be refused alone.
    pub poison_attempts: u32,
    /// Whether ranges come again as they were, and are settled as a whole.
    pub frozen: bool,
    /// Who knows the keys.
    pub connector: &'a dyn Connector,
}

impl<'a> Rules<'a> {
    fn key<'e>(&self, event: &'e Event) -> Cow<'e, str>
    where
        'a: 'e,
    {
        self.connector.key(event)
    }
}

/// What the last holder left behind.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// Failed deliveries of this batch.
    pub failures: u32,
    /// The event under suspicion.
    pub suspect: Option<Suspect>,
    /// Whether its process died while it delivered exactly this range.
    pub died: bool,
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
    /// Whether the suspect has had its attempts, and a neighbour is looked for.
    looking: bool,
    /// The event that is compared with.
    probe: Option<Position>,
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
}

impl<'a> Work<'a> {
    /// Begins with a batch; the cursor may move to `end` once all of it is settled.
    #[must_use]
    pub fn new(rules: Rules<'a>, batch: Batch, end: Position, before: Before) -> Self {
        let first = batch.first().position();
        let suspect = before.suspect.filter(|suspect| suspect.position == first);
        let mut work = Self {
            rules,
            queue: Queue::new(batch, end),
            suspect,
            failures: before.failures,
            extended: false,
            looking: false,
            probe: None,
        };
        match (&work.suspect, before.died) {
            (Some(_), _) => work.queue.single_out(),
            (None, true) => work.queue.halve(),
            (None, false) => {}
        }
        work.after_restart(before.died);
        work
    }

    /// A death counts as a refusal of the one event that was in hand. Without a death
    /// the suspect is tried once more before anything else, except after a probe: the
    /// suspect could follow its successor.
    fn after_restart(&mut self, died: bool) {
        let alone = self.queue.front().is_some_and(|piece| piece.len() == 1);
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
    }

    fn crashed(&mut self) {
        let error = "the process died while this event alone was being delivered";
        self.blame(CRASHED, error.to_owned());
        self.looking = self.used_up();
    }

    /// The event under suspicion, to be remembered.
    #[must_use]
    pub fn suspect(&self) -> Option<Suspect> {
        self.suspect.clone()
    }

    /// Whether more should be read, as far as it is there already: the suspect's
    /// attempts are about to be used up, and nothing of another key follows.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        let lacking = |suspect: &Suspect| match suspect.stage {
            Stage::Alone => {
                let soon = suspect.attempts.saturating_add(1) >= self.rules.poison_attempts;
                soon && self.neighbours().is_empty()
            }
            Stage::Probing(probe) => self.queue.probe(probe).is_none(),
            Stage::Comparing | Stage::Confirming => false,
        };
        !self.extended && self.suspect.as_ref().is_some_and(lacking)
    }

    /// Puts what was read next behind what is open.
    pub fn extend(&mut self, more: Option<Batch>, end: Position) {
        self.extended = more.is_some();
        self.queue.extend(more, end);
    }

    /// What to do next.
    pub fn todo(&mut self) -> Todo {
        if self.queue.front().is_none() {
            return Todo::Nothing;
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

    /// After deaths: the suspect is not tried again before another event went through,
    /// and not at all if it had been its last attempt.
    fn convict_or_look(&mut self) -> Option<Todo> {
        let suspect = self.suspect.as_ref()?;
        if suspect.stage == Stage::Confirming {
            return Some(Todo::Settle(self.convict()));
        }
        if !self.look_for_neighbour() {
            return Some(Todo::AwaitNeighbour);
        }
        None
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

    fn comparing(&mut self) -> Todo {
        match self.probe.and_then(|probe| self.queue.probe(probe)) {
            Some(batch) => Todo::Deliver(Task { batch, mark: false }),
            None => {
                self.set_stage(Stage::Alone);
                self.front(false)
            }
        }
    }

    fn probing(&mut self, probe: Position) -> Todo {
        match self.queue.probe(probe) {
            Some(batch) => {
                self.probe = Some(probe);
                Todo::Deliver(Task { batch, mark: true })
            }
            None if !self.extended => Todo::AwaitNeighbour,
            // It is not there any more: somebody has changed the filter.
            None => {
                self.set_stage(Stage::Alone);
                self.front(false)
            }
        }
    }

    /// What follows from the attempt at what [`Work::todo`] gave out last.
    pub fn after(&mut self, attempt: Attempt) -> Step {
        match (self.suspect.as_ref().map(|it| it.stage), self.probe) {
            (Some(Stage::Comparing), Some(probe)) => self.after_comparing(probe, attempt),
            (Some(Stage::Probing(_)), Some(probe)) => self.after_probing(probe, attempt),
            _ => self.after_front(attempt),
        }
    }

    /// What follows if the sink could not even be opened: that is nobody's fault.
    pub fn not_opened(&mut self, error: SinkError) -> Step {
        use outbox_sinks::ErrorKind;
        match error.kind() {
            ErrorKind::Fenced => Step::only(Next::GiveUp(error)),
            ErrorKind::Unavailable | ErrorKind::Failed | ErrorKind::Misconfigured => {
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
                self.refused_alone(FAILED, error.chain(), error)
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
        Step {
            up_to: Some(self.queue.settled(piece.end())),
            dead_letters,
            progress: true,
            next: Next::Go,
        }
    }

    fn after_verdicts(&mut self, piece: &Batch, verdicts: Vec<Verdict>) -> Step {
        let alone = piece.len() == 1;
        let error = summary(&verdicts);
        let refusal = verdicts.iter().find_map(refused).cloned();
        let mut open = Vec::new();
        let mut dead_letters = Vec::new();
        let mut first_open_refused = None;
        let mut up_to = None;
        for (event, verdict) in piece.iter().zip(verdicts) {
            let is_open = match verdict {
                Verdict::Delivered => None,
                Verdict::Undeliverable(refusal) => {
                    let (code, error) = (refusal.code().to_owned(), refusal.reason().to_owned());
                    let attempts = self.suspect.as_ref().map_or(0, |it| it.attempts) + 1;
                    dead_letters.push(DeadLetter {
                        event: event.clone(),
                        code,
                        error,
                        attempts,
                    });
                    None
                }
                Verdict::Refused(_) => Some(true),
                Verdict::Unconfirmed => Some(false),
            };
            match is_open {
                Some(refused) => {
                    first_open_refused.get_or_insert(refused);
                    open.push(event.clone());
                }
                None if open.is_empty() => up_to = Some(event.position()),
                None => {}
            }
        }
        let (Some(rest), Some(error)) = (Batch::new(open), error) else {
            return self.settled(piece, dead_letters);
        };
        let progress = rest.len() < piece.len();
        self.queue.push(rest);
        if let (true, Some(refusal)) = (alone, refusal) {
            return self.refused_alone(refusal.code(), refusal.reason().to_owned(), error);
        }
        if first_open_refused == Some(true) {
            // The rest waits behind it, so that nothing overtakes it (OB-4).
            self.queue.single_out();
        }
        self.suspect = None;
        Step {
            up_to,
            dead_letters,
            progress,
            next: Next::BackOff(error),
        }
    }

    /// The first event was refused when it was tried alone.
    fn refused_alone(&mut self, code: &str, reason: String, error: SinkError) -> Step {
        let confirmed = self.stage() == Some(Stage::Confirming);
        self.blame(code, reason);
        if confirmed {
            return self.convict();
        }
        self.set_stage(Stage::Alone);
        if self.used_up() && self.look_for_neighbour() {
            return Step::only(Next::Go);
        }
        Step::only(Next::BackOff(error))
    }

    fn after_comparing(&mut self, probe: Position, attempt: Attempt) -> Step {
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

    fn after_probing(&mut self, probe: Position, attempt: Attempt) -> Step {
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
    fn acquit(&mut self) {
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
        let turn = usize::try_from(round).unwrap_or(0) % others.len().max(1);
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

    fn neighbours(&self) -> Vec<Position> {
        self.queue.neighbours(|event| self.rules.key(event))
    }

    fn stage(&self) -> Option<Stage> {
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

impl Step {
    /// Nothing is settled by it.
    pub(crate) const fn only(next: Next) -> Self {
        Self {
            up_to: None,
            dead_letters: Vec::new(),
            progress: false,
            next,
        }
    }
}
