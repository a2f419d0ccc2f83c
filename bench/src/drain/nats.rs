//! To NATS: a stream on files for each run.

use std::time::Duration;

use anyhow::{Context as _, Result};
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::stream::{Config, StorageType};
use futures_util::StreamExt;
use outbox_tests::servers::Nats;
use tokio::time::timeout;

use super::contender::Contender::{self, Ours, Produce, Read, Relay};
use super::destination::Destination;
use super::gate::Gate;
use super::ladder::{self, Plan};
use super::report::{self, Goals};
use crate::lab::Lab;
use crate::target::Target;
use crate::workload::{WORKLOADS, Workload};

const PATIENCE: Duration = Duration::from_secs(30);

const ORDER: [Contender; 6] = [Read, Relay, Produce, Ours, Ours, Produce];
/// A stream takes fewer events a second than a topic.
const EVENTS: [u32; 4] = [40_000, 40_000, 10_000, 3_000];

/// Measures, in so many rounds.
///
/// # Errors
/// If something could not be measured, or was delivered wrongly.
pub async fn run(lab: &Lab, rounds: u32) -> Result<Vec<Target>> {
    let nats = lab.nats().await;
    let jetstream = nats.jetstream().await;
    let streams = Streams { nats, jetstream };
    let workloads = Workload::with_events(WORKLOADS, EVENTS);
    let plan = Plan {
        section: "drain-nats",
        order: &ORDER,
        workloads: &workloads,
        rounds,
    };
    let results = ladder::climb(lab, &streams, &plan, ladder::nothing_else).await?;
    let goals = Goals {
        against: Produce,
        least_ratio: 0.6,
        batch_bytes: 4 << 20,
    };
    Ok(report::print(&plan, &results, &goals))
}

/// A server, and what watches it.
#[derive(Debug)]
struct Streams {
    nats: Nats,
    jetstream: Context,
}

impl Destination for Streams {
    fn name(&self) -> &'static str {
        "nats"
    }

    async fn make(&self, place: &str) -> Result<()> {
        let stream = Config {
            name: place.to_owned(),
            subjects: vec!["events.>".to_owned()],
            storage: StorageType::File,
            ..Config::default()
        };
        self.jetstream.create_stream(stream).await?;
        Ok(())
    }

    fn sink(&self, place: &str) -> String {
        let url = self.nats.url();
        format!("[sinks.{place}.nats]\nservers = [\"{url}\"]\n")
    }

    fn floor_args(&self, _place: &str) -> Vec<String> {
        vec!["--server".to_owned(), self.nats.url()]
    }

    async fn progress(&self, place: &str) -> Result<u64> {
        let stream = self.jetstream.get_stream(place).await?;
        Ok(stream.cached_info().state.messages)
    }

    fn complete(&self, events: u32, _bytes: u64) -> u64 {
        u64::from(events)
    }

    async fn read(&self, place: &str, gate: &mut Gate) -> Result<()> {
        let mut unread = self.progress(place).await?;
        let stream = self.jetstream.get_stream(place).await?;
        let consumer = stream.create_consumer(OrderedConfig::default()).await?;
        let mut messages = consumer.messages().await?;
        while unread > 0 {
            let message = timeout(PATIENCE, messages.next())
                .await
                .context("NATS answers in time")?
                .context("a stream is read to its end")??;
            unread -= 1;
            let mut headers: Vec<_> = message
                .headers
                .iter()
                .flat_map(|headers| headers.iter())
                .map(|(name, values)| format!("{name}: {values:?}"))
                .collect();
            headers.sort();
            let beside = format!("{} {headers:?}", message.subject);
            gate.take(None, &message.payload, beside.as_bytes())?;
        }
        Ok(())
    }

    async fn remove(&self, place: &str) -> Result<()> {
        self.jetstream.delete_stream(place).await?;
        Ok(())
    }
}
