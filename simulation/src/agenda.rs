//! What happens in a run, and when: drawn from the seed before it begins.

use std::collections::BTreeMap;

use crate::chance::{Chance, stream};
use crate::destination::OutageKind;
use crate::faults::Fault;
use crate::plan::{AREAS, Plan};

/// Something that happens to the world at a certain time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// A transaction begins; the number is ours, its id is the database's.
    Begin(u64),
    /// It writes an event.
    Insert {
        transaction: u64,
        key: u64,
        area: usize,
    },
    Commit {
        transaction: u64,
        synchronous: bool,
    },
    RollBack(u64),
    Outage {
        sink: usize,
        kind: OutageKind,
        millis: u64,
    },
    Crash {
        worker: usize,
    },
    Start {
        worker: usize,
    },
    Stop {
        worker: usize,
    },
    Pause {
        worker: usize,
        millis: u64,
        clock_goes_on: bool,
    },
    ClockJump {
        worker: usize,
        millis: u64,
    },
    Partition {
        worker: usize,
        millis: u64,
    },
    DatabaseDown {
        millis: u64,
    },
    DatabaseCrash,
    DatabaseClock {
        by: i64,
    },
    /// A destination that stores its position goes back to an older state.
    Restore {
        sink: usize,
        lot: u64,
    },
    /// An operator looks whether a sink waits for a decision.
    LookAt {
        sink: usize,
    },
    StealLease {
        sink: usize,
    },
    PauseSink {
        sink: usize,
    },
    ResumeSink {
        sink: usize,
    },
    /// To a place that is drawn when it happens.
    Seek {
        sink: usize,
        lot: u64,
    },
    Replay {
        sink: usize,
    },
    Discard {
        sink: usize,
    },
}

/// Everything that is still to happen, in order.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    actions: BTreeMap<(u64, u64), Action>,
    added: u64,
}

impl Agenda {
    pub(crate) fn add(&mut self, at: u64, action: Action) {
        self.added += 1;
        self.actions.insert((at, self.added), action);
    }

    /// When the next thing happens.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.actions.keys().next().map(|(at, _)| *at)
    }

    /// The next thing that happens up to `now`.
    pub(crate) fn take(&mut self, now: u64) -> Option<Action> {
        let first = self.actions.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(crate) fn draw(plan: &Plan) -> Self {
        let mut agenda = Self::default();
        for worker in 0..plan.workers {
            agenda.add(0, Action::Start { worker });
        }
        for number in 0..plan.transactions {
            agenda.transaction(plan, number);
        }
        agenda.database(plan);
        agenda.processes(plan);
        for sink in 0..plan.sinks.len() {
            agenda.sink(plan, sink);
        }
        agenda
    }

    fn transaction(&mut self, plan: &Plan, number: u64) {
        let mut rng = stream(plan.seed, "transaction", number);
        let begins = rng.u64(..plan.active_ms);
        let (short, long) = (rng.millis(0, 300), rng.millis(1_000, 25_000));
        let (is_long, is_empty) = (rng.happens(0.08), rng.happens(0.4));
        let (rolls_back, asynchronous) = (rng.happens(0.15), rng.happens(0.4));
        let events = rng.u64(1..=plan.events_each);
        let is_long = is_long && plan.faults.has(Fault::LongTransactions);
        let ends = begins + if is_long { long } else { short };
        self.add(begins, Action::Begin(number));
        for _ in 0..events {
            let (at, key) = (rng.millis(begins, ends), rng.u64(..plan.keys));
            let area = rng.usize(..AREAS.len());
            if !(is_long && is_empty) {
                let transaction = number;
                self.add(
                    at,
                    Action::Insert {
                        transaction,
                        key,
                        area,
                    },
                );
            }
        }
        let end = if rolls_back && plan.faults.has(Fault::Rollbacks) {
            Action::RollBack(number)
        } else {
            let synchronous = !(asynchronous && plan.faults.has(Fault::LostCommits));
            Action::Commit {
                transaction: number,
                synchronous,
            }
        };
        self.add(ends, end);
    }

    /// Adds some of what `fault` stands for.
    fn some(
        &mut self,
        plan: &Plan,
        (fault, number): (Fault, usize),
        most: u64,
        action: impl Fn(&mut fastrand::Rng) -> Action,
    ) {
        let number = u64::try_from(number).unwrap_or(0);
        let mut rng = stream(plan.seed, &format!("{fault:?}"), number);
        let times = rng.u64(0..=most);
        for _ in 0..times {
            let (at, action) = (rng.u64(..plan.active_ms), action(&mut rng));
            if plan.faults.has(fault) {
                self.add(at, action);
            }
        }
    }

    fn database(&mut self, plan: &Plan) {
        self.some(plan, (Fault::DatabaseOutages, 0), 3, |rng| {
            Action::DatabaseDown {
                millis: log_millis(rng, 50, 30_000),
            }
        });
        self.some(plan, (Fault::LostCommits, 0), 4, |_| Action::DatabaseCrash);
        self.some(plan, (Fault::DatabaseClock, 0), 3, |rng| {
            let by = i64::try_from(log_millis(rng, 100, 60_000)).unwrap_or(0);
            // It is set forward far, and back only a little.
            Action::DatabaseClock {
                by: if rng.bool() { by } else { -(by / 20) },
            }
        });
    }

    fn processes(&mut self, plan: &Plan) {
        for worker in 0..plan.workers {
            self.some(plan, (Fault::Crashes, worker), 3, |_| Action::Crash {
                worker,
            });
            self.some(plan, (Fault::Stops, worker), 3, |_| Action::Stop { worker });
            self.some(plan, (Fault::Pauses, worker), 3, |rng| Action::Pause {
                worker,
                millis: log_millis(rng, 100, 40_000),
                clock_goes_on: rng.happens(0.7),
            });
            self.some(plan, (Fault::ProcessClock, worker), 3, |rng| {
                Action::ClockJump {
                    worker,
                    millis: log_millis(rng, 50, 30_000),
                }
            });
            self.some(plan, (Fault::Partitions, worker), 3, |rng| {
                Action::Partition {
                    worker,
                    millis: log_millis(rng, 50, 30_000),
                }
            });
        }
    }

    fn sink(&mut self, plan: &Plan, sink: usize) {
        self.some(plan, (Fault::Outages, sink), 3, |rng| Action::Outage {
            sink,
            kind: rng.choice(OutageKind::ALL).unwrap_or(OutageKind::Failed),
            millis: log_millis(rng, 300, 60_000),
        });
        self.some(plan, (Fault::LostData, sink), 2, |rng| Action::Restore {
            sink,
            lot: rng.u64(..),
        });
        self.some(plan, (Fault::StolenLeases, sink), 2, |_| {
            Action::StealLease { sink }
        });
        self.some(plan, (Fault::PauseCommands, sink), 2, |_| {
            Action::PauseSink { sink }
        });
        self.some(plan, (Fault::PauseCommands, sink + 100), 3, |_| {
            Action::ResumeSink { sink }
        });
        self.some(plan, (Fault::SeekCommands, sink), 2, |rng| Action::Seek {
            sink,
            lot: rng.u64(..),
        });
        self.some(plan, (Fault::ReplayCommands, sink), 4, |rng| {
            match rng.happens(0.75) {
                true => Action::Replay { sink },
                false => Action::Discard { sink },
            }
        });
    }
}

/// A time between two others, short ones as likely as long ones.
fn log_millis(rng: &mut fastrand::Rng, least: u32, most: u32) -> u64 {
    let drawn = rng.spread(f64::from(least), f64::from(most));
    let drawn = drawn.clamp(f64::from(least), f64::from(most));
    std::time::Duration::from_secs_f64(drawn / 1_000.0)
        .as_millis()
        .try_into()
        .unwrap_or(u64::from(most))
}
