//! The end of a run: nothing goes wrong any more, so everything has to come right.

use outbox::sink_lease;
use outbox_runtime::settings::OnPoison;

use crate::agenda::Action;
use crate::destination::{Nature, Poison};
use crate::faults::Fault;
use crate::run::Run;
use crate::world::{Command, CursorRow, FIRST_NEIGHBOUR, World, number_of};

/// How long everything may take to come right.
const PATIENCE: u64 = 40 * 60_000;
/// How long a sink may stand still before somebody looks whether it can go on at all.
const STANDSTILL: u64 = 240_000;
/// How often something is published meanwhile: a suspect may have to wait for that.
const NEW_EVENTS: u64 = 40_000;
/// How many events are looked at behind one that does not get on.
const REPAIRED: usize = 16;
/// How long nothing at all may happen once everything is done.
const SILENCE: u64 = 15_000;

impl Run {
    /// Lets everything come right, or finds what does not.
    pub(crate) fn settle_down(&mut self) {
        self.calm_down();
        let began = self.now();
        let mut more_at = began + NEW_EVENTS;
        let mut at = Standing::default();
        while let Some(open) = self.open() {
            if self.is_over() {
                return;
            }
            if self.now() > began + PATIENCE {
                return self.shared.world().violated("progress", open);
            }
            if self.now() > more_at {
                self.neighbours(more_at, FIRST_NEIGHBOUR + more_at);
                more_at += NEW_EVENTS;
            }
            self.step();
            self.help(&mut at);
        }
        self.shared.world().nothing_is_missing();
        self.stay_silent();
        self.stop_all();
    }

    fn calm_down(&mut self) {
        let now = self.now();
        while let Some(action) = self.agenda.take(u64::MAX) {
            // Transactions end; nothing else that was planned happens any more.
            if let Action::Insert { .. } | Action::Commit { .. } | Action::RollBack(_) = action {
                self.agenda.add(now, action);
                self.happen(now);
            }
        }
        for (worker, host) in self.hosts.iter_mut().enumerate() {
            match host {
                Some(host) => {
                    if let Some(pause) = &mut host.paused {
                        pause.until = now;
                    }
                }
                None => self.agenda.add(now, Action::Start { worker }),
            }
        }
        for number in 0..6 {
            self.neighbours(now + 300 * number, FIRST_NEIGHBOUR + number);
        }
        self.slice_ms = self.slice_ms.max(60);
        let mut world = self.shared.world();
        world.log(|| "nothing goes wrong any more".to_owned());
        (world.calm, world.down_until) = (true, 0);
        for destination in &mut world.destinations {
            destination.outage = None;
        }
        if world.plan.faults.has(Fault::ReplayCommands) {
            world.repair_and_replay();
        }
        for process in &mut world.processes {
            (process.crash_in, process.cut_off_until) = (None, 0);
        }
    }

    /// Publishes events of another key, which every destination takes.
    fn neighbours(&mut self, at: u64, number: u64) {
        let transaction = FIRST_NEIGHBOUR;
        self.agenda.add(at, Action::Begin(transaction));
        for area in 0..crate::plan::AREAS.len() {
            let key = number;
            self.agenda.add(
                at,
                Action::Insert {
                    transaction,
                    key,
                    area,
                },
            );
        }
        let synchronous = true;
        self.agenda.add(
            at,
            Action::Commit {
                transaction,
                synchronous,
            },
        );
    }

    /// What is still to be done.
    fn open(&self) -> Option<String> {
        if let Some(at) = self.agenda.next_at() {
            return Some(format!("something happens at {at}"));
        }
        let alive: Vec<String> = self
            .hosts
            .iter()
            .flatten()
            .map(|host| host.holder())
            .collect();
        self.shared.world().open(&alive)
    }

    /// What an operator does who looks now and then.
    fn help(&mut self, standing: &mut Standing) {
        let now = self.now();
        let mut world = self.shared.world();
        for sink in 0..world.cursors.len() {
            if now >= standing.looked_at + 3_000 {
                world.let_go_on(sink);
                world.decide_where_to_go_on(sink);
            }
            let at = world.cursor(sink).map(|row| row.position);
            if standing.positions.len() <= sink {
                standing.positions.resize(sink + 1, (now, None));
            }
            let Some((since, known)) = standing.positions.get_mut(sink) else {
                continue;
            };
            if *known != at {
                (*since, *known) = (now, at);
            } else if now > *since + STANDSTILL {
                *since = now;
                world.repair_successors(sink);
            }
        }
        if now >= standing.looked_at + 3_000 {
            standing.looked_at = now;
        }
    }

    /// When all is done, nothing is done any more.
    fn stay_silent(&mut self) {
        let deliveries = |run: &Self| run.shared.world().counted("deliveries");
        let (before, until) = (deliveries(self), self.now() + SILENCE);
        while self.now() < until && !self.is_over() {
            self.step();
        }
        let more = deliveries(self) - before;
        if more > 0 {
            let seen = format!("{more} deliveries after everything was done");
            self.shared.world().violated("useless work", seen);
        }
    }

    /// A stop in good order gives all leases back.
    fn stop_all(&mut self) {
        let now = self.now();
        for host in self.hosts.iter_mut().flatten() {
            host.stop(now);
        }
        while self.hosts.iter().flatten().next().is_some() && !self.is_over() {
            self.step();
            self.agenda = crate::agenda::Agenda::default();
        }
        let mut world = self.shared.world();
        let now = world.database_now();
        for sink in 0..world.cursors.len() {
            let lease = sink_lease(world.sink_name(sink));
            if let Some(holder) = world.leases.holder(&lease, now) {
                let seen = format!("{lease} is still held by {holder} after a stop");
                return world.violated("progress", seen);
            }
        }
    }
}

/// Where the cursors stand, and since when.
#[derive(Debug, Default)]
struct Standing {
    looked_at: u64,
    positions: Vec<(u64, Option<outbox::Position>)>,
}

impl World {
    /// Somebody repairs what was wrong with the dead letters, and has them replayed.
    fn repair_and_replay(&mut self) {
        let letters: Vec<_> = self
            .letters
            .iter()
            .map(|it| (it.sink, number_of(&it.event)))
            .collect();
        for (sink, number) in letters {
            if let Some(destination) = self.destinations.get_mut(sink) {
                destination.healed.extend(number);
            }
        }
        for sink in 0..self.cursors.len() {
            self.order(sink, Command::Replay);
        }
    }

    fn halts(&self, sink: usize) -> bool {
        let plan = self.plan.sinks.get(sink);
        plan.is_some_and(|plan| plan.settings.poison.on_poison == OnPoison::Halt)
    }

    fn repair_all(&mut self, sink: usize) {
        let events = 0..self.outbox.published.len();
        if let Some(destination) = self.destinations.get_mut(sink) {
            destination.healed = events.collect();
        }
    }

    /// Resumes a paused sink. One that has to halt at poison goes on once it is healed.
    fn let_go_on(&mut self, sink: usize) {
        let paused = self.cursor(sink).is_some_and(|row| row.paused.is_some());
        if !paused {
            return;
        }
        if self.halts(sink) {
            self.repair_all(sink);
        }
        self.count("resumed in the end");
        // What its successor has overtaken can't be sent any more: it is left out.
        if let Some((suspect, _)) = self.cursor(sink).and_then(CursorRow::probe) {
            self.order(sink, Command::Seek(suspect));
        }
        self.order(sink, Command::Resume);
    }

    /// A poison event can't be told from an outage if everything that is looked at to
    /// compare it with is poison as well: somebody has to repair what follows it.
    fn repair_successors(&mut self, sink: usize) {
        let Some(at) = self.cursor(sink).map(|row| row.position) else {
            return;
        };
        if self.halts(sink) {
            // It has not come to the end of a trial, and what killed the process is not
            // tried again. A seek to where the cursor is forgets that.
            self.repair_all(sink);
            return self.order(sink, Command::Seek(at));
        }
        let later = self.outbox.rows.range(at..);
        let later = later.filter(|(position, _)| **position > at);
        let mut open = later
            .map(|(_, number)| *number)
            .filter(|number| self.takes(sink, *number));
        let first = open.next();
        let is_bad = |number: &usize| self.nature(sink, *number) != Nature::Innocent;
        let hangs = |number: &usize| self.nature(sink, *number) == Nature::Poison(Poison::Hangs);
        let mut bad: Vec<usize> = open.take(REPAIRED).filter(is_bad).collect();
        // Nobody knows what became of an event that got no answer: it is compared with
        // events of other keys only.
        bad.extend(first.filter(hangs));
        if first.is_none() || bad.is_empty() {
            return;
        }
        self.log(|| format!("somebody repairs {bad:?} for sink {sink}"));
        self.count("poison behind poison");
        if let Some(destination) = self.destinations.get_mut(sink) {
            destination.healed.extend(bad);
        }
    }
}
