//! The simulated world: the database's tables, the destinations, the processes and the
//! time. Everything that happens in it happens here, and is shown to the model.

mod commands;
mod cursors;
mod leases;
mod letters;
mod outbox;
mod process;
mod retention;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

pub(crate) use self::commands::Command;
pub(crate) use self::cursors::CursorRow;
pub(crate) use self::leases::{Leases, millis};
pub(crate) use self::letters::{Letter, State};
pub(crate) use self::outbox::{FIRST_NEIGHBOUR, Fate, Outbox, number_of};
pub(crate) use self::process::Process;
use crate::destination::Destination;
use crate::model::Model;
use crate::plan::Plan;
use crate::trace::Trace;

/// Where the database's clock begins: it may be set back.
const DATABASE_EPOCH: u64 = 10_000_000;

/// A guarantee that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// `OB-1` to `OB-9`, `exactly once`, `progress`, `useless work` or `panic`.
    pub(crate) what: &'static str,
    pub(crate) seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.seen)
    }
}

/// A statement or a message that arrives after its sender has given up.
pub(crate) struct Late {
    pub(crate) at: u64,
    /// Which of several at the same time comes first.
    pub(crate) order: u64,
    pub(crate) happens: Box<dyn FnOnce(&mut World) + Send>,
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Late({})", self.at)
    }
}

/// The world, as the processes in it share it.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(crate) fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of everything.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Arc<Plan>,
    pub(crate) outbox: Outbox,
    pub(crate) leases: Leases,
    /// One row for each sink, once it was made.
    pub(crate) cursors: Vec<Option<CursorRow>>,
    pub(crate) letters: Vec<Letter>,
    pub(crate) operation: i64,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) processes: Vec<Process>,
    pub(crate) model: Model,
    pub(crate) late: Vec<Late>,
    pub(crate) trace: Trace,
    pub(crate) violation: Option<Violation>,
    /// What a run has seen, to know what a run can see.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Until when the database is down.
    pub(crate) down_until: u64,
    /// Whether nothing goes wrong any more.
    pub(crate) calm: bool,
    /// When the present slice began.
    pub(crate) slice_began: u64,
    /// The process that runs, and its clock when its slice began.
    running: Option<(usize, Instant)>,
    /// What the database's clock is ahead of the world's.
    clock_offset: i64,
    database_clock: u64,
}

impl World {
    pub(crate) fn new(plan: Plan, tracing: bool) -> Self {
        let sinks = plan.sinks.len();
        Self {
            outbox: Outbox::default(),
            leases: Leases::default(),
            cursors: vec![None; sinks],
            letters: Vec::new(),
            operation: 0,
            destinations: (0..sinks).map(|_| Destination::default()).collect(),
            processes: Vec::new(),
            model: Model::new(sinks),
            late: Vec::new(),
            trace: Trace::new(tracing),
            violation: None,
            counts: BTreeMap::new(),
            down_until: 0,
            calm: false,
            slice_began: 0,
            running: None,
            clock_offset: 0,
            database_clock: 0,
            plan: Arc::new(plan),
        }
    }

    /// The world's time in milliseconds, as far as the running process has come.
    pub(crate) fn now(&self) -> u64 {
        let come = self.running.map(|(_, since)| since.elapsed());
        self.slice_began + come.map_or(0, millis)
    }

    /// The database's clock. It stands still rather than go back, until it is set back.
    pub(crate) fn database_now(&mut self) -> u64 {
        let now = DATABASE_EPOCH + self.now();
        let ahead = now.saturating_add_signed(self.clock_offset);
        self.database_clock = self.database_clock.max(ahead);
        self.database_clock
    }

    /// Sets the database's clock forward or back.
    pub(crate) fn set_database_clock(&mut self, by: i64) {
        self.clock_offset += by;
        self.database_clock = 0;
    }

    /// Lets a process run from here on, by its own clock; none after it.
    pub(crate) fn run_process(&mut self, running: Option<(usize, Instant)>) {
        self.running = running;
    }

    /// Notes the first violation of a run: what follows may only follow from it.
    pub(crate) fn violated(&mut self, what: &'static str, seen: impl Into<String>) {
        let seen = seen.into();
        self.log(|| format!("VIOLATION of {what}: {seen}"));
        self.violation.get_or_insert(Violation { what, seen });
    }

    /// Adds a line to the trace, if there is one.
    pub(crate) fn log(&mut self, line: impl FnOnce() -> String) {
        if self.trace.is_on() {
            let (now, line) = (self.now(), line());
            let who = self.running.and_then(|(id, _)| self.processes.get(id));
            let who = who.map_or_else(|| "world".to_owned(), |process| process.name.clone());
            self.trace.add(now, &who, &line);
        }
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Whether a sink's configuration takes an event.
    pub(crate) fn takes(&self, sink: usize, number: usize) -> bool {
        let area = self.plan.sinks.get(sink).and_then(|plan| plan.area);
        let event = self.outbox.event(number);
        area.is_none_or(|area| event.is_some_and(|event| event.area == area))
    }

    /// Whether a destination keeps the order of these two.
    pub(crate) fn same_key(&self, sink: usize, one: usize, other: usize) -> bool {
        let key = |number| self.outbox.event(number).map(|event| event.key.as_str());
        let one_key = self.plan.sinks.get(sink).is_some_and(|plan| plan.one_key);
        one_key || key(one) == key(other)
    }

    /// Whether a sink has frozen ranges.
    pub(crate) fn is_frozen(&self, sink: usize) -> bool {
        self.plan.sinks.get(sink).is_some_and(|plan| plan.frozen)
    }

    pub(crate) fn sink_name(&self, sink: usize) -> &str {
        let plan = self.plan.sinks.get(sink);
        plan.map_or("?", |plan| plan.settings.name.as_str())
    }
}
