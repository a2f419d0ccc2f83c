//! Who takes part, and one run of one of them.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;
use tokio::time::{Instant, sleep};
use tokio::try_join;

use super::destination::Destination;
use super::figures::Figures;
use super::floor_process::FloorProcess;
use super::gate::{Gate, Passed};
use crate::cpu::{Cost, peak_rss};
use crate::lab::backends;
use crate::program;
use crate::worker::{self, Setup};
use crate::workload::Backlog;

/// What the sessions of the floor are called.
const FLOOR_SESSIONS: &str = crate::floor::SESSIONS;
/// How often the destination is asked how far it is.
const LOOK: Duration = Duration::from_millis(10);
/// How long after the last event the bill is made out: acknowledgements and the last
/// cursor belong to it.
const MOMENT: Duration = Duration::from_millis(100);
/// The longest run there can be.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Contender {
    /// L1: reads the rows.
    Read,
    /// L2: sends the messages.
    Produce,
    /// L3: reads and sends.
    Relay,
    /// `sinks run`.
    Ours,
    /// Debezium as it comes.
    DebeziumShipped,
    /// Debezium with settings for throughput.
    DebeziumTuned,
}

impl Contender {
    /// For tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Read => "L1 read",
            Self::Produce => "L2 send",
            Self::Relay => "L3 both",
            Self::Ours => "ours",
            Self::DebeziumShipped => "Debezium shipped",
            Self::DebeziumTuned => "Debezium tuned",
        }
    }
}

/// One run in a place of its own.
pub(super) struct Run<'a, D> {
    pub(super) destination: &'a D,
    pub(super) backlog: &'a Backlog,
    /// The place's name, and the sink's.
    pub(super) place: String,
}

impl<D: Destination> Run<'_, D> {
    /// Lets one of the floor or ours drain the backlog, and judges what arrived. Nothing
    /// arrives from who only reads.
    pub(super) async fn of(&self, contender: Contender) -> Result<(Figures, Option<Passed>)> {
        if contender == Contender::Read {
            return Ok((self.read().await?, None));
        }
        self.destination.make(&self.place).await?;
        let mut figures = match contender {
            Contender::Produce => self.produce().await?,
            Contender::Ours => Box::pin(self.ours()).await?,
            Contender::Relay => self.relay().await?,
            Contender::Read | Contender::DebeziumShipped | Contender::DebeziumTuned => {
                bail!("{} does not send these rows", contender.name())
            }
        };
        let mut gate = Gate::new(self.backlog.events);
        self.destination.read(&self.place, &mut gate).await?;
        let passed = gate.judge()?;
        self.destination.remove(&self.place).await?;
        figures.duplicates = passed.duplicates;
        ensure!(
            contender == Contender::Ours || passed.duplicates == 0,
            "the floor sent {} events twice",
            passed.duplicates
        );
        Ok((figures, Some(passed)))
    }

    async fn read(&self) -> Result<Figures> {
        let start = Instant::now();
        let mut floor = FloorProcess::spawn(self.floor("read")?)?;
        floor.until("done").await?;
        self.bill(start.elapsed(), floor).await
    }

    async fn produce(&self) -> Result<Figures> {
        let program = format!("produce-{}", self.destination.name());
        let mut floor = FloorProcess::spawn(self.floor(&program)?)?;
        floor.until("ready").await?;
        let before = Cost::of(floor.pid()?)?;
        let start = Instant::now();
        floor.say("go").await?;
        // Whoever fails says so at once.
        let (elapsed, _) = try_join!(self.until_complete(start), floor.until("done"))?;
        let mut figures = self.bill(elapsed, floor).await?;
        figures.cpu = figures.cpu.saturating_sub(before.cpu);
        // Its reading was a preparation.
        figures.backends = Duration::ZERO;
        Ok(figures)
    }

    async fn relay(&self) -> Result<Figures> {
        let program = format!("relay-{}", self.destination.name());
        let command = self.floor(&program)?;
        let start = Instant::now();
        let mut floor = FloorProcess::spawn(command)?;
        // Whoever fails says so at once.
        let (elapsed, _) = try_join!(self.until_complete(start), floor.until("done"))?;
        self.bill(elapsed, floor).await
    }

    async fn ours(&self) -> Result<Figures> {
        let sink = self.destination.sink(&self.place);
        let setup = Setup::new(&self.backlog.database, &sink)?;
        let start = Instant::now();
        let mut worker = setup.run()?;
        let elapsed = tokio::select! {
            complete = self.until_complete(start) => complete,
            ended = worker.ended() => Err(ended),
        }?;
        sleep(MOMENT).await;
        let pid = worker.pid()?;
        let figures = self.cost(elapsed, pid, worker::SESSIONS).await?;
        worker.stop().await?;
        Ok(figures)
    }

    fn floor(&self, program: &str) -> Result<Command> {
        let mut command = Command::new(program::floor()?);
        let rows = self.backlog.rows_of_a_page().to_string();
        command.args(["--database", &self.backlog.database.url()]);
        command.args(["--rows", &rows, program]);
        if program != "read" {
            command.args(self.destination.floor_args(&self.place));
        }
        Ok(command)
    }

    /// Waits until the destination has everything.
    async fn until_complete(&self, start: Instant) -> Result<Duration> {
        let (events, bytes) = (self.backlog.events, self.backlog.object_bytes());
        let complete = self.destination.complete(events, bytes);
        let mut progress = 0;
        while start.elapsed() < PATIENCE {
            progress = self.destination.progress(&self.place).await?;
            if progress >= complete {
                return Ok(start.elapsed());
            }
            sleep(LOOK).await;
        }
        let error = anyhow::anyhow!("{progress} of {complete} arrived in {PATIENCE:?}");
        Err(error.context(self.place.clone()))
    }

    async fn bill(&self, elapsed: Duration, floor: FloorProcess) -> Result<Figures> {
        sleep(MOMENT).await;
        let figures = self.cost(elapsed, floor.pid()?, FLOOR_SESSIONS).await?;
        floor.quit().await.context("end a program of the floor")?;
        Ok(figures)
    }

    async fn cost(&self, elapsed: Duration, pid: u32, sessions: &str) -> Result<Figures> {
        let cpu = Cost::of(pid)?.cpu;
        let peak_rss = peak_rss(pid)?;
        let mut connection = self.backlog.database.connect().await;
        let pids = backends(&mut connection, sessions).await?;
        Ok(Figures {
            events: self.backlog.events,
            elapsed,
            cpu,
            backends: Cost::of_all(&pids).cpu,
            peak_rss,
            duplicates: 0,
        })
    }
}
