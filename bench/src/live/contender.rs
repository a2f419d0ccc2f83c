//! Who carries events from the outbox to Kafka.

use std::fmt;
use std::process::Stdio;

use anyhow::{Context, Result};
use outbox_tests::servers::{Database, Kafka};
use tokio::process::{Child, Command};

use crate::program;
use crate::worker::{Setup, Worker};

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// `sinks run` with its defaults.
    Relay,
    /// The plainest live loop.
    Plain,
}

impl Contender {
    /// The order in each round: whatever drifts hits both alike.
    pub(super) const ROUND: [Self; 4] = [Self::Relay, Self::Plain, Self::Plain, Self::Relay];
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Relay => "relay",
            Self::Plain => "plain loop",
        })
    }
}

/// A process that delivers. It ends when this is dropped.
#[derive(Debug)]
pub(super) enum Running {
    /// With its configuration's folder.
    Relay(Worker, Setup),
    /// It has nothing to save.
    Plain(Child),
}

impl Running {
    /// Starts to deliver everything in the outbox to `topic`, under the topic's name.
    ///
    /// # Errors
    /// If the program can't be started.
    pub(super) fn start(
        who: Contender,
        database: &Database,
        kafka: &Kafka,
        topic: &str,
    ) -> Result<Self> {
        let brokers = kafka.bootstrap();
        match who {
            Contender::Relay => {
                let setup = Setup::new(database, &kafka_sink(topic, kafka))?;
                Ok(Self::Relay(setup.run()?, setup))
            }
            Contender::Plain => {
                let child = Command::new(program::floor()?)
                    .args(["--database", &database.url(), "live-kafka"])
                    .args(["--broker", &brokers, "--topic", topic])
                    .stdin(Stdio::null())
                    .kill_on_drop(true)
                    .spawn()
                    .context("start the plain loop")?;
                Ok(Self::Plain(child))
            }
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// If it had ended by itself, or fails to.
    pub(super) async fn stop(self) -> Result<()> {
        match self {
            Self::Relay(worker, _setup) => worker.stop().await,
            Self::Plain(mut child) => {
                let ended = child.try_wait()?;
                anyhow::ensure!(ended.is_none(), "the plain loop has ended: {ended:?}");
                Ok(child.kill().await?)
            }
        }
    }
}

/// The table of a sink that has the name of its topic, with nothing but what is required.
#[must_use]
pub(super) fn kafka_sink(topic: &str, kafka: &Kafka) -> String {
    let brokers = kafka.bootstrap();
    format!("[sinks.{topic}.kafka]\nbrokers = [\"{brokers}\"]\ntopic = \"{topic}\"\n")
}
