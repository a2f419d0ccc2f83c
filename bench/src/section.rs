//! What can be measured, each on its own.

use std::fmt;

use anyhow::Result;
use clap::ValueEnum;

use crate::drain;
use crate::lab::Lab;
use crate::live;
use crate::target::Target;

/// A section of the benchmark. Each prints its table and gives its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Section {
    /// A backlog to Kafka, and Debezium with the same rows.
    DrainKafka,
    /// A backlog to a NATS stream on files.
    DrainNats,
    /// A backlog to S3.
    DrainS3,
    /// From commit to arrival in Kafka, event by event.
    Latency,
    /// Workers that have nothing to do.
    Idle,
    /// Many sinks in one worker.
    Scale,
    /// What those who publish feel of a worker.
    Publishers,
}

impl Section {
    /// All of them, in the order they run in.
    pub const ALL: [Self; 7] = [
        Self::DrainKafka,
        Self::DrainNats,
        Self::DrainS3,
        Self::Latency,
        Self::Idle,
        Self::Scale,
        Self::Publishers,
    ];

    /// Measures, in so many rounds.
    ///
    /// # Errors
    /// If something could not be measured, or was delivered wrongly.
    pub async fn run(self, lab: &Lab, rounds: u32) -> Result<Vec<Target>> {
        match self {
            Self::DrainKafka => Box::pin(drain::kafka::run(lab, rounds)).await,
            Self::DrainNats => Box::pin(drain::nats::run(lab, rounds)).await,
            Self::DrainS3 => Box::pin(drain::s3::run(lab, rounds)).await,
            Self::Latency => Box::pin(live::latency::run(lab, rounds)).await,
            Self::Idle => Box::pin(live::idle::run(lab, rounds)).await,
            Self::Scale => Box::pin(live::scale::run(lab, rounds)).await,
            Self::Publishers => Box::pin(live::publishers::run(lab, rounds)).await,
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
