//! A process: the real worker on a runtime of its own, with a clock of its own. It runs
//! in slices; between them it can be paused, made to jump in time, or dropped, which is
//! how a process dies: at whatever it was waiting for.

use std::sync::Arc;
use std::time::Duration;

use outbox_runtime::worker;
use outbox_sinks::Connector;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep};
use tokio_util::sync::CancellationToken;

use crate::calls::Line;
use crate::chance::{Chance, stream};
use crate::sink::SimulatedConnector;
use crate::store::SimulatedStore;
use crate::world::{Process, Shared};

/// A process that was started and has not ended yet.
#[derive(Debug)]
pub(crate) struct Host {
    runtime: Runtime,
    task: JoinHandle<()>,
    stop: CancellationToken,
    shared: Shared,
    /// Its number among all processes there ever were.
    pub(crate) process: usize,
    /// When it was told to stop.
    pub(crate) stopping_since: Option<u64>,
    /// Until when it is paused, and since when.
    pub(crate) paused: Option<Pause>,
}

/// A process that does not run for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    pub(crate) since: u64,
    pub(crate) until: u64,
    /// Whether its clock goes on meanwhile, as under SIGSTOP; a machine that is put to
    /// sleep has a clock that sleeps as well.
    pub(crate) clock_goes_on: bool,
}

impl Host {
    /// Starts a process. Each one has another name in the leases.
    pub(crate) fn start(shared: &Shared, worker: usize) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs nothing that could be missing");
        let born = runtime.block_on(async { Instant::now() });
        let (process, plan) = {
            let mut world = shared.world();
            let process = world.processes.len();
            let number = u64::try_from(process).unwrap_or(0);
            let chance = stream(world.plan.seed, "calls", number);
            let mut born = Process::new(format!("w{worker}/{process}"), born, chance);
            let mean = world.plan.rates.crash_after_calls;
            if mean > 0 && !world.calm {
                born.crash_in = Some(born.chance.millis(0, 2 * mean));
            }
            world.processes.push(born);
            world.count("processes");
            (process, Arc::clone(&world.plan))
        };
        let stop = CancellationToken::new();
        let mut settings = plan.worker.clone();
        settings.holder = format!("w{worker}/{process}");
        let line = Line {
            shared: shared.clone(),
            process,
        };
        let sinks = plan.sinks.iter().enumerate().map(|(sink, plan)| {
            let connector = SimulatedConnector {
                shared: shared.clone(),
                process,
                sink,
            };
            (
                plan.settings.clone(),
                Box::new(connector) as Box<dyn Connector>,
            )
        });
        let sinks = sinks.collect();
        let store = Arc::new(SimulatedStore(line));
        let task = runtime.spawn(worker::run(
            store,
            settings,
            sinks,
            Arc::default(),
            stop.clone(),
        ));
        Self {
            runtime,
            task,
            stop,
            shared: shared.clone(),
            process,
            stopping_since: None,
            paused: None,
        }
    }

    /// Lets it run for a while, by its own clock, or until it dies.
    pub(crate) fn run(&mut self, millis: u64) {
        let killed = match self.shared.world().processes.get_mut(self.process) {
            Some(process) => {
                process.calls = 0;
                process.killed.clone()
            }
            None => return,
        };
        let (shared, process) = (&self.shared, self.process);
        self.runtime.block_on(async {
            let now = Instant::now();
            shared.world().run_process(Some((process, now)));
            tokio::select! {
                biased;
                () = killed.cancelled() => {}
                () = sleep(Duration::from_millis(millis)) => {}
            }
        });
        self.shared.world().run_process(None);
    }

    /// Makes its clock jump. What it has waited for happens in its next slice.
    pub(crate) fn jump(&mut self, millis: u64) {
        let (shared, process) = (&self.shared, self.process);
        let by = Duration::from_millis(millis);
        self.runtime.block_on(async {
            {
                let (mut world, after) = (shared.world(), Instant::now() + by);
                world.run_process(Some((process, after)));
                if let Some(process) = world.processes.get_mut(process) {
                    process.clock_jumps(millis);
                }
            }
            advance(by).await;
        });
        self.shared.world().run_process(None);
    }

    /// Tells it to stop.
    pub(crate) fn stop(&mut self, now: u64) {
        self.stop.cancel();
        self.stopping_since.get_or_insert(now);
    }

    /// Its name in the leases.
    pub(crate) fn holder(&self) -> String {
        let world = self.shared.world();
        let process = world.processes.get(self.process);
        process
            .map(|process| process.name.clone())
            .unwrap_or_default()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    pub(crate) fn is_dead(&self) -> bool {
        let world = self.shared.world();
        let process = world.processes.get(self.process);
        process.is_none_or(|process| process.dead)
    }
}

/// Whatever is dropped with it is dropped by a process that is dead.
impl Drop for Host {
    fn drop(&mut self) {
        if let Some(process) = self.shared.world().processes.get_mut(self.process) {
            process.dead = true;
        }
    }
}
