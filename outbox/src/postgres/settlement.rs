//! What a sink's loop writes into its cursor row, and what it finds there: the words
//! that the loop, its store and the simulation share. No SQL here.

use std::time::Duration;

use crate::{Event, Flow, Position};

/// What became of a write under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a write under a lost lease has changed nothing"]
pub enum Owned {
    /// It was written.
    Yes,
    /// Nothing was changed: somebody newer owns what was to be written, or it is not
    /// where the writer believes it to be.
    No,
}

/// What came of a delivery: written in one transaction, or not at all (OB-7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// How far the cursor moves: everything up to here is delivered, filtered out or
    /// a dead letter.
    pub up_to: Option<Position>,
    /// The last event that was delivered by it, for a destination that stores how far it
    /// has come: less than this it may not have when it is asked again.
    pub delivered: Option<Position>,
    /// The events that go to the dead letters, in order.
    pub dead_letters: Vec<DeadLetter>,
    /// What the loop does after that.
    pub then: Then,
}

/// A cursor's move and nothing else, as a clean delivery leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The sink.
    pub sink: String,
    /// The token of the lease that it is written under.
    pub token: i64,
    /// How far the cursor moves.
    pub up_to: Position,
}

/// What follows a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// Deliveries go on: earlier failures are forgotten, but not a suspect that the
    /// cursor has not passed.
    Go,
    /// The loop waits before it tries again.
    BackOff(Failure),
    /// The sink is paused until somebody resumes it, for this reason.
    Pause(String),
}

/// A failed delivery, to be remembered across holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Failed deliveries in a row, this one counted.
    pub attempts: u32,
    /// How long to wait before the next one.
    pub retry_in: Duration,
    /// The kind of error: `unavailable`, `failed`, `misconfigured`.
    pub kind: &'static str,
    /// The error and its advice, for people: no payload, no secret. A long one is cut.
    pub error: String,
    /// The event under suspicion, if there is one.
    pub suspect: Option<Suspect>,
}

/// An event that was refused alone: either it is poison, or the destination is out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The event: the first one after the cursor.
    pub position: Position,
    /// How often in a row it was refused alone.
    pub attempts: u32,
    /// How far the trial has come.
    pub stage: Stage,
    /// The last refusal's code.
    pub code: String,
    /// The last refusal's reason.
    pub error: String,
}

/// The stages of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The suspect is tried alone.
    Alone,
    /// An event of another key is tried: whether the destination takes anything.
    Comparing,
    /// The event at this position, of the suspect's own key, is tried. From here on the
    /// suspect is never sent again unless this one is refused as well: it could follow
    /// its successor (OB-4).
    Probing(Position),
    /// Another event went through; the suspect gets one last attempt.
    Confirming,
}

/// What is written down before a delivery, by who needs that: sinks with frozen
/// ranges, trials, and the hunt for an event that kills the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The end of the range that is delivered: it begins after the cursor.
    pub end: Position,
    /// Until the cursor has passed this position every delivery is marked.
    pub hunt: Option<Position>,
    /// The event under suspicion, if there is one.
    pub suspect: Option<Suspect>,
}

/// An event that goes to the dead letters.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// The event.
    pub event: Event,
    /// Why, for programs.
    pub code: String,
    /// Why, for people: no payload, no secret. A long one is cut.
    pub error: String,
    /// How often it was refused.
    pub attempts: u32,
}

impl PartialEq for DeadLetter {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.event.position(), it.attempts);
        key(self) == key(other) && self.code == other.code && self.error == other.error
    }
}

impl Eq for DeadLetter {}

/// A sink's cursor as its present holder found it, a seek that was ordered already
/// carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The last position that is done with.
    pub position: Position,
    /// The last event that a destination with a position of its own was told to have.
    pub delivered: Option<Position>,
    /// The last end that was ever marked in this flow: no honest destination is beyond it.
    pub marked: Option<Position>,
    /// The run of positions that it goes through.
    pub flow: Flow,
    /// What makes the position meaningless in this database.
    pub origin: Origin,
    /// Failed deliveries in a row of what comes next.
    pub attempts: u32,
    /// How long to wait before the next delivery.
    pub retry_in: Option<Duration>,
    /// Why it is paused, if it is.
    pub paused: Option<String>,
    /// The event under suspicion, if there is one.
    pub suspect: Option<Suspect>,
    /// The end of the last range that was marked and not yet passed.
    pub in_hand: Option<Position>,
    /// Whether the delivery of that range was begun and never settled.
    pub delivering: bool,
    /// How far every delivery has to be marked.
    pub hunt: Option<Position>,
    /// Whether dead letters wait to be replayed.
    pub replays: bool,
}

/// Whether a cursor and the outbox belong to the cluster that they are found in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// They do.
    #[default]
    Here,
    /// The cursor was saved in another cluster, of which this database is a copy.
    OtherCluster,
    /// The outbox holds events with transaction ids that this cluster has not given
    /// out yet: they came with a dump, and nobody would ever read them.
    ForeignEvents,
    /// A claim found the cursor beyond all transactions of this database, which has lost
    /// its last commits. It stays so when the transaction ids have caught up: what was
    /// published meanwhile lies before the cursor and was never delivered.
    BeyondHorizon,
}

/// A dead letter that is to be delivered again.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The dead letter.
    pub id: i64,
    /// Its event, marked as a replay.
    pub event: Event,
}

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// It arrived.
    Delivered,
    /// It was refused again, for this reason: it stays a dead letter.
    Refused {
        /// Why, for programs.
        code: String,
        /// Why, for people.
        error: String,
    },
    /// Nothing is known of it: it waits as before.
    Postponed,
}

/// A worker that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name in the leases.
    pub holder: String,
    /// The sinks that it could run.
    pub sinks: Vec<String>,
    /// The sinks whose leases it holds.
    pub held: Vec<String>,
}

/// What one statement of a retention pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// How many rows it deleted.
    pub rows: u64,
    /// Where the next statement goes on, if there may be more to delete.
    pub next: Option<Position>,
}
