//! One run: the processes take turns, and in between the world happens to them.

use fastrand::Rng;
use outbox::{Position, sink_lease};

use crate::agenda::{Action, Agenda};
use crate::chance::{Chance, stream};
use crate::destination::Outage;
use crate::host::{Host, Pause};
use crate::panics;
use crate::plan::Plan;
use crate::world::{Command, Shared, World};

/// How long it takes until a process that ended is started again.
const RESTART: (u64, u64) = (50, 8_000);
/// What a worker may take to stop beyond its `shutdown_timeout`: its own margin, and ours.
const STOP_MARGIN: u64 = 12_000;

/// A run that is under way.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) shared: Shared,
    /// One for each worker, while it has a process.
    pub(crate) hosts: Vec<Option<Host>>,
    pub(crate) agenda: Agenda,
    /// Transactions by our number: the id that each has drawn.
    transactions: Vec<Option<u64>>,
    pub(crate) chance: Rng,
    pub(crate) slice_ms: u64,
}

impl Run {
    pub(crate) fn new(plan: Plan, tracing: bool) -> Self {
        fastrand::seed(plan.seed);
        let _earlier = panics::take();
        Self {
            hosts: (0..plan.workers).map(|_| None).collect(),
            agenda: Agenda::draw(&plan),
            transactions: Vec::new(),
            chance: stream(plan.seed, "slices", 0),
            slice_ms: plan.slice_ms,
            shared: Shared::new(World::new(plan, tracing)),
        }
    }

    /// Runs the time in which things go wrong.
    pub(crate) fn active(&mut self) {
        let end = self.shared.world().plan.active_ms;
        while self.now() < end && !self.is_over() {
            self.step();
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.shared.world().slice_began
    }

    pub(crate) fn is_over(&self) -> bool {
        self.shared.world().violation.is_some()
    }

    /// One slice of every process, and then what is due.
    pub(crate) fn step(&mut self) {
        let now = self.now();
        self.happen(now);
        let wanted = now + self.chance.millis(1, self.slice_ms);
        let next = self.agenda.next_at().unwrap_or(wanted);
        let until = wanted.min(next).max(now + 1);
        let first = self.chance.usize(..self.hosts.len().max(1));
        for turn in 0..self.hosts.len() {
            let worker = (first + turn) % self.hosts.len();
            self.run_worker(worker, until - now);
            if self.is_over() {
                return;
            }
        }
        self.shared.world().slice_began = until;
        self.reap(until);
        if let Some(message) = panics::take() {
            self.shared.world().violated("panic", message);
        }
    }

    fn run_worker(&mut self, worker: usize, millis: u64) {
        let now = self.now();
        let Some(host) = self.hosts.get_mut(worker).and_then(Option::as_mut) else {
            return;
        };
        if let Some(pause) = host.paused {
            if now < pause.until {
                return;
            }
            host.paused = None;
            host.stopping_since = host.stopping_since.map(|_| now);
            self.shared
                .world()
                .log(|| format!("worker {worker} wakes up"));
            if pause.clock_goes_on {
                host.jump(now - pause.since);
            }
        }
        host.run(millis);
    }

    /// Lets go of processes that have ended, and starts new ones.
    fn reap(&mut self, now: u64) {
        let (timeout, calm) = {
            let world = self.shared.world();
            (world.plan.worker.shutdown_timeout, world.calm)
        };
        let patience = crate::world::millis(timeout) + STOP_MARGIN;
        for worker in 0..self.hosts.len() {
            let Some(slot) = self.hosts.get_mut(worker) else {
                continue;
            };
            let Some(host) = slot.as_ref() else { continue };
            let asked = host.stopping_since;
            let ended = host.has_ended();
            if !ended && !host.is_dead() {
                if asked.is_some_and(|at| calm && now > at + patience) {
                    let seen = format!("worker {worker} does not stop within {patience} ms");
                    self.shared.world().violated("progress", seen);
                }
                continue;
            }
            if ended && asked.is_none() {
                let seen = format!("worker {worker} ended without being told to");
                self.shared.world().violated("progress", seen);
            }
            *slot = None;
            let again = now + self.chance.millis(RESTART.0, RESTART.1);
            self.agenda.add(again, Action::Start { worker });
        }
    }

    /// Lets everything happen that is due.
    pub(crate) fn happen(&mut self, now: u64) {
        let due = {
            let mut world = self.shared.world();
            let late = std::mem::take(&mut world.late);
            let (mut due, later): (Vec<_>, _) = late.into_iter().partition(|it| it.at <= now);
            world.late = later;
            due.sort_by_key(|it| (it.at, it.order));
            due
        };
        for late in due {
            (late.happens)(&mut self.shared.world());
        }
        while let Some(action) = self.agenda.take(now) {
            self.act(action, now);
            if self.is_over() {
                return;
            }
        }
    }

    fn act(&mut self, action: Action, now: u64) {
        match action {
            Action::Begin(_)
            | Action::Insert { .. }
            | Action::Commit { .. }
            | Action::RollBack(_) => {
                self.publish(action);
            }
            Action::Outage { sink, kind, millis } => {
                let mut world = self.shared.world();
                if kind.blames() && world.suspects_innocent(sink) {
                    drop(world);
                    return self.agenda.add(now + 500, action);
                }
                world.log(|| format!("sink {sink} is out for {millis} ms: {kind:?}"));
                world.count("outages");
                if let Some(destination) = world.destinations.get_mut(sink) {
                    let until = now + millis;
                    destination.outage = Some(Outage { kind, until });
                }
            }
            Action::DatabaseDown { .. } | Action::DatabaseCrash | Action::DatabaseClock { .. } => {
                self.database(action, now);
            }
            Action::StealLease { sink } => {
                let mut world = self.shared.world();
                let now = world.database_now();
                let name = sink_lease(world.sink_name(sink));
                world.log(|| format!("{name} is taken away"));
                if let Some(row) = world.leases.rows.get_mut(&name) {
                    row.expires_at = row.expires_at.min(now);
                }
            }
            Action::Restore { sink, lot } => {
                let mut world = self.shared.world();
                world.restore(sink, lot);
                // Somebody looks at what the status says.
                let mut rng = Rng::with_seed(lot);
                for _ in 0..3 {
                    let at = now + rng.millis(2_000, 60_000);
                    self.agenda.add(at, Action::LookAt { sink });
                }
            }
            Action::LookAt { sink } => self.shared.world().decide_where_to_go_on(sink),
            Action::PauseSink { .. }
            | Action::ResumeSink { .. }
            | Action::Seek { .. }
            | Action::Replay { .. }
            | Action::Discard { .. } => self.order(action),
            Action::Crash { .. }
            | Action::Start { .. }
            | Action::Stop { .. }
            | Action::Pause { .. }
            | Action::ClockJump { .. }
            | Action::Partition { .. } => self.process(action, now),
        }
    }

    fn publish(&mut self, action: Action) {
        let mut world = self.shared.world();
        let number = match action {
            Action::Begin(number) | Action::RollBack(number) => number,
            Action::Insert { transaction, .. } | Action::Commit { transaction, .. } => transaction,
            _ => return,
        };
        let number = usize::try_from(number).unwrap_or(0);
        if self.transactions.len() <= number {
            self.transactions.resize(number + 1, None);
        }
        let Some(known) = self.transactions.get_mut(number) else {
            return;
        };
        if let Action::Begin(_) = action {
            *known = Some(world.outbox.begin());
        }
        let Some(txid) = *known else { return };
        match action {
            Action::Insert { key, area, .. } => {
                let now = world.database_now();
                world.outbox.insert(txid, key, area, now);
            }
            Action::Commit { synchronous, .. } => {
                let events = world.outbox.commit(txid, synchronous);
                world.log(|| format!("transaction {txid} commits {events:?}"));
                world.was_committed(&events);
            }
            Action::RollBack(_) => world.outbox.roll_back(txid),
            _ => {}
        }
    }

    fn database(&mut self, action: Action, now: u64) {
        let mut world = self.shared.world();
        world.log(|| format!("the database: {action:?}"));
        let millis = match action {
            Action::DatabaseDown { millis } => millis,
            Action::DatabaseClock { by } => return world.set_database_clock(by),
            _ => {
                world.count("crashes of the database");
                world.crash_database();
                200
            }
        };
        world.down_until = world.down_until.max(now + millis);
        for process in 0..world.processes.len() {
            world.cut_off(process, 0);
        }
    }

    fn order(&mut self, action: Action) {
        let mut world = self.shared.world();
        let (sink, command) = match action {
            Action::PauseSink { sink } => (sink, Command::Pause),
            Action::ResumeSink { sink } => (sink, Command::Resume),
            Action::Replay { sink } => (sink, Command::Replay),
            Action::Discard { sink } => (sink, Command::Discard),
            Action::Seek { sink, lot } => (sink, Command::Seek(world.place(lot))),
            _ => return,
        };
        world.order(sink, command);
    }

    fn process(&mut self, action: Action, now: u64) {
        if let Action::Start { worker } = action {
            if let Some(slot) = self.hosts.get_mut(worker).filter(|slot| slot.is_none()) {
                *slot = Some(Host::start(&self.shared, worker));
            }
            return;
        }
        let (Action::Crash { worker }
        | Action::Stop { worker }
        | Action::Pause { worker, .. }
        | Action::ClockJump { worker, .. }
        | Action::Partition { worker, .. }) = action
        else {
            return;
        };
        let Some(host) = self.hosts.get_mut(worker).and_then(Option::as_mut) else {
            return;
        };
        let mut world = self.shared.world();
        world.log(|| format!("worker {worker}: {action:?}"));
        // Time that passes at once may hit a deadline: see `Fortune`.
        let spared = (0..world.cursors.len()).any(|sink| world.suspects_innocent(sink));
        match action {
            Action::Crash { .. } => world.kill(host.process),
            Action::Partition { millis, .. } => world.cut_off(host.process, now + millis),
            Action::Pause { .. } | Action::ClockJump { .. } if spared => {
                drop(world);
                self.agenda.add(now + 500, action);
            }
            Action::Pause {
                millis,
                clock_goes_on,
                ..
            } => {
                world.count("pauses");
                let (since, until) = (now, now + millis);
                host.paused.get_or_insert(Pause {
                    since,
                    until,
                    clock_goes_on,
                });
            }
            Action::ClockJump { millis, .. } => {
                drop(world);
                host.jump(millis);
            }
            _ => {
                drop(world);
                host.stop(now);
            }
        }
    }
}

impl World {
    /// The database crashes, and may lose what was not on disk.
    fn crash_database(&mut self) {
        let lost = self.outbox.crash(true);
        self.log(|| format!("lost: {lost:?}"));
        if !lost.is_empty() {
            self.count("crashes that lost commits");
            self.commits_were_lost(&lost);
            for witness in &mut self.model.sinks {
                witness.forget_ranges();
            }
        }
    }

    /// A place to move a cursor to.
    fn place(&self, lot: u64) -> Position {
        let mut rng = Rng::with_seed(lot);
        let rows: Vec<Position> = self.outbox.rows.keys().copied().collect();
        let end = Position::before(self.outbox.horizon());
        match rng.u8(..6) {
            0 => Position::BEGINNING,
            1 => end,
            _ => rng.choice(rows).unwrap_or(end).min(end),
        }
    }
}
