//! Debezium in the same rounds: its engine and its outbox event router with the same table and
//! the same broker, as `bench/debezium/README.md` describes.
//!
//! It reads the log and not the table, so each run has a database of its own, where the events
//! are inserted while it stands still. Its virtual machine is warmed up by events before those,
//! with the table and the code that are measured; neither start nor warm-up counts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use outbox_tests::servers::{Database, installed_in};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, Executor, PgConnection};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::contender::Contender;
use super::destination::Destination;
use super::figures::Figures;
use super::floor_process::FloorProcess;
use super::gate::Gate;
use super::kafka::Topics;
use crate::cpu::{Cost, peak_rss};
use crate::lab::Lab;
use crate::workload::WORKLOADS;

/// Where its settings are, from the repository's root.
const FOLDER: &str = "bench/debezium";
/// For the compilers of its virtual machine. With more it gets a little quicker still.
const WARM_UP: u32 = 100_000;
const EVENTS: u32 = 60_000;

/// Debezium, installed.
#[derive(Debug)]
pub(super) struct Debezium {
    java: PathBuf,
    classpath: String,
    main: String,
}

impl Debezium {
    /// Looks it up. `None` if `scripts/setup-debezium` has not installed it.
    pub(super) fn find() -> Option<Self> {
        let text = std::fs::read_to_string(installed_in().join("debezium.env")).ok()?;
        let mut values: HashMap<_, _> = text.lines().filter_map(|l| l.split_once('=')).collect();
        Some(Self {
            java: values.remove("DEBEZIUM_JAVA")?.into(),
            classpath: values.remove("DEBEZIUM_CLASSPATH")?.to_owned(),
            main: values.remove("DEBEZIUM_MAIN")?.to_owned(),
        })
    }

    /// One run, into a topic of its own.
    pub(super) async fn run(
        &self,
        lab: &Lab,
        topics: &Topics,
        contender: Contender,
        place: &str,
    ) -> Result<Figures> {
        let setup = Setup::of(contender)?;
        let [workload, ..] = WORKLOADS;
        let database = lab.database().await?;
        let mut connection = database.connect().await;
        prepare(&mut connection, setup.publication).await?;
        topics.make(place).await?;
        let folder = tempfile::tempdir()?;
        let command = self.command(&setup, &database, topics, place, &folder)?;
        let mut engine = FloorProcess::spawn(command)?;
        workload.append(&mut connection, 0, WARM_UP).await?;
        engine.until("warm").await?;
        // It reads on while it waits, and what it has decoded already would not be measured.
        let walsender = walsender(&mut connection).await?;
        kill_process(walsender, Signal::STOP)?;
        workload.append(&mut connection, WARM_UP, EVENTS).await?;
        let figures = measure(&mut engine, &mut connection, walsender, topics, place).await?;
        engine.quit().await.context("end Debezium")?;
        let mut gate = Gate::new(WARM_UP + EVENTS);
        topics.read(place, &mut gate).await?;
        let duplicates = gate.judge()?.duplicates;
        topics.remove(place).await?;
        // A slot that nobody reads keeps the log of everything that follows.
        drop_slot(&mut connection).await?;
        connection.close().await?;
        Ok(Figures {
            duplicates,
            ..figures
        })
    }

    fn command(
        &self,
        setup: &Setup,
        database: &Database,
        topics: &Topics,
        place: &str,
        folder: &TempDir,
    ) -> Result<Command> {
        let server = database.server();
        let offsets = folder.path().join("offsets");
        let mut command = Command::new(&self.java);
        command.args(setup.flags);
        command.args(["-cp", &self.classpath, &self.main]);
        command.arg(Path::new(FOLDER).join(setup.settings));
        for (key, value) in [
            ("bench.warmup", WARM_UP.to_string()),
            ("bench.events", EVENTS.to_string()),
            ("debezium.source.database.hostname", server.ip().to_string()),
            ("debezium.source.database.port", server.port().to_string()),
            ("debezium.source.database.user", "postgres".to_owned()),
            ("debezium.source.database.password", "postgres".to_owned()),
            (
                "debezium.source.database.dbname",
                database.name().to_owned(),
            ),
            ("debezium.source.slot.name", "bench".to_owned()),
            ("debezium.source.publication.name", "bench".to_owned()),
            (
                "debezium.source.offset.storage.file.filename",
                offsets.display().to_string(),
            ),
            (
                "debezium.transforms.outbox.route.topic.replacement",
                place.to_owned(),
            ),
            (
                "debezium.sink.kafka.producer.bootstrap.servers",
                topics.bootstrap(),
            ),
        ] {
            command.arg(format!("{key}={value}"));
        }
        Ok(command)
    }
}

/// What its two configurations differ in; the reasons are in `bench/debezium/README.md`.
struct Setup {
    settings: &'static str,
    flags: &'static [&'static str],
    publication: &'static str,
}

impl Setup {
    fn of(contender: Contender) -> Result<Self> {
        match contender {
            Contender::DebeziumShipped => Ok(Self {
                settings: "shipped.properties",
                flags: &["-Xmx1g"],
                publication: "create publication bench for table outbox",
            }),
            Contender::DebeziumTuned => Ok(Self {
                settings: "tuned.properties",
                flags: &["-Xmx1g", "-XX:+UseParallelGC"],
                publication: "create publication bench
                     for table outbox (seq, topic, payload, aggregateid)
                     with (publish = 'insert')",
            }),
            Contender::Read | Contender::Produce | Contender::Relay | Contender::Ours => {
                bail!("{} is not Debezium", contender.name())
            }
        }
    }
}

/// Publication and slot: whatever is inserted from now on is sent.
async fn prepare(connection: &mut PgConnection, publication: &'static str) -> Result<()> {
    for sql in [
        "alter table outbox add column if not exists aggregateid text",
        publication,
        "select pg_create_logical_replication_slot('bench', 'pgoutput')",
    ] {
        connection.execute(sql).await?;
    }
    Ok(())
}

/// The process that sends it the log.
async fn walsender(connection: &mut PgConnection) -> Result<Pid> {
    let sql = "select active_pid from pg_replication_slots where slot_name = 'bench'";
    let pid: Option<i32> = sqlx::query_scalar(sql).fetch_one(connection).await?;
    pid.and_then(Pid::from_raw)
        .context("Debezium reads its slot")
}

/// A slot that nobody reads would keep the log of everything that follows.
async fn drop_slot(connection: &mut PgConnection) -> Result<()> {
    let unused = "select active_pid is null from pg_replication_slots where slot_name = 'bench'";
    let mut attempts = 0..200;
    while !sqlx::query_scalar::<_, bool>(unused)
        .fetch_one(&mut *connection)
        .await?
    {
        attempts.next().context("Debezium's slot stays in use")?;
        sleep(Duration::from_millis(50)).await;
    }
    connection
        .execute("select pg_drop_replication_slot('bench')")
        .await?;
    Ok(())
}

/// From the word to go until the topic has everything.
async fn measure(
    engine: &mut FloorProcess,
    connection: &mut PgConnection,
    walsender: Pid,
    topics: &Topics,
    place: &str,
) -> Result<Figures> {
    /// The same as for the others.
    const LOOK: Duration = Duration::from_millis(10);
    const MOMENT: Duration = Duration::from_millis(100);
    let sessions = sessions(connection).await?;
    let pid = engine.pid()?;
    let (before, before_backends) = (Cost::of(pid)?, Cost::of_all(&sessions));
    let start = Instant::now();
    engine.say("go").await?;
    kill_process(walsender, Signal::CONT)?;
    while topics.progress(place).await? < u64::from(WARM_UP + EVENTS) {
        sleep(LOOK).await;
    }
    let elapsed = start.elapsed();
    engine.until("done").await?;
    sleep(MOMENT).await;
    Ok(Figures {
        events: EVENTS,
        elapsed,
        cpu: (Cost::of(pid)? - before).cpu,
        backends: (Cost::of_all(&sessions) - before_backends).cpu,
        peak_rss: peak_rss(pid)?,
        duplicates: 0,
    })
}

/// Everybody in this database but us: Debezium's sessions have several names.
async fn sessions(connection: &mut PgConnection) -> Result<Vec<u32>> {
    let sql = "select pid from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()";
    let pids: Vec<i32> = sqlx::query_scalar(sql).fetch_all(connection).await?;
    Ok(pids
        .into_iter()
        .filter_map(|pid| pid.try_into().ok())
        .collect())
}
