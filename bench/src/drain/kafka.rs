//! To Kafka: a topic of four partitions for each run.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use outbox_tests::servers::Kafka;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::contender::Contender::{
    self, DebeziumShipped, DebeziumTuned, Ours, Produce, Read, Relay,
};
use super::debezium::Debezium;
use super::destination::Destination;
use super::gate::Gate;
use super::ladder::{self, Plan, Results};
use super::raw::Raw;
use super::report::{self, Goals};
use crate::lab::Lab;
use crate::target::Target;
use crate::workload::WORKLOADS;

const PARTITIONS: i32 = 4;
const PATIENCE: Duration = Duration::from_secs(30);
/// Deleted topics leave the disk at once: a benchmark makes hundreds.
const TOPIC: [(&str, &str); 1] = [("file.delete.delay.ms", "1000")];

const ORDER: [Contender; 6] = [Read, Produce, Relay, Ours, Ours, Relay];

/// Measures, in so many rounds.
///
/// # Errors
/// If something could not be measured, or was delivered wrongly.
pub async fn run(lab: &Lab, rounds: u32) -> Result<Vec<Target>> {
    let topics = Topics::start(lab).await?;
    let debezium = Debezium::find();
    if debezium.is_none() {
        eprintln!("  Debezium is not installed: `scripts/setup-debezium` does it");
    }
    let plan = Plan {
        section: "drain-kafka",
        order: &ORDER,
        workloads: &WORKLOADS,
        rounds,
    };
    // Debezium is compared where events count and not bytes.
    let compare = async |round: u32, results: &mut [Results], raw: &mut Raw| {
        let (Some(debezium), [smallest, ..]) = (&debezium, results) else {
            return Ok(());
        };
        for contender in [DebeziumShipped, DebeziumTuned] {
            let place = format!("debezium_{round}_{}", contender as u8);
            let figures = Box::pin(debezium.run(lab, &topics, contender, &place)).await?;
            smallest.add(round, contender, figures, raw)?;
        }
        Ok(())
    };
    let results = ladder::climb(lab, &topics, &plan, compare).await?;
    let goals = Goals {
        against: Relay,
        least_ratio: 0.8,
        batch_bytes: 4 << 20,
    };
    Ok(report::print(&plan, &results, &goals))
}

/// A broker, and what watches it.
pub(super) struct Topics {
    kafka: Kafka,
    watcher: BaseConsumer,
    admin: AdminClient<DefaultClientContext>,
}

impl Topics {
    async fn start(lab: &Lab) -> Result<Self> {
        let kafka = lab.kafka().await;
        Ok(Self {
            watcher: client(&kafka).create()?,
            admin: client(&kafka).create()?,
            kafka,
        })
    }

    /// `host:port` of the broker.
    pub(super) fn bootstrap(&self) -> String {
        self.kafka.bootstrap()
    }

    /// The ends of the partitions, in one request.
    fn ends(&self, topic: &str) -> Result<Vec<i64>> {
        let mut ends = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            ends.add_partition_offset(topic, partition, Offset::End)?;
        }
        let ends = block_in_place(|| self.watcher.offsets_for_times(ends, PATIENCE))?;
        let mut offsets = Vec::new();
        for partition in ends.elements() {
            partition.error()?;
            offsets.extend(partition.offset().to_raw());
        }
        Ok(offsets)
    }
}

impl Destination for Topics {
    fn name(&self) -> &'static str {
        "kafka"
    }

    async fn make(&self, place: &str) -> Result<()> {
        self.kafka
            .create_topic_with(place, PARTITIONS, &TOPIC)
            .await;
        let mut attempts = 0..1_500;
        while self.ends(place).is_err() {
            attempts.next().context("a new topic is not usable")?;
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn sink(&self, place: &str) -> String {
        let broker = self.bootstrap();
        format!("[sinks.{place}.kafka]\nbrokers = [\"{broker}\"]\ntopic = \"{place}\"\n")
    }

    fn floor_args(&self, place: &str) -> Vec<String> {
        let args = ["--broker", &self.bootstrap(), "--topic", place];
        args.map(str::to_owned).to_vec()
    }

    async fn progress(&self, place: &str) -> Result<u64> {
        let ends = self.ends(place)?;
        Ok(ends
            .into_iter()
            .filter_map(|end| u64::try_from(end).ok())
            .sum())
    }

    fn complete(&self, events: u32, _bytes: u64) -> u64 {
        u64::from(events)
    }

    async fn read(&self, place: &str, gate: &mut Gate) -> Result<()> {
        let ends = self.ends(place)?;
        block_in_place(|| read(&self.kafka, place, &ends, gate))
    }

    async fn remove(&self, place: &str) -> Result<()> {
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        for result in self.admin.delete_topics(&[place], &options).await? {
            result.map_err(|(topic, code)| anyhow::anyhow!("delete topic {topic}: {code}"))?;
        }
        Ok(())
    }
}

fn client(kafka: &Kafka) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka.bootstrap());
    config.set("group.id", "bench");
    config.set("enable.auto.commit", "false");
    config
}

fn read(kafka: &Kafka, topic: &str, ends: &[i64], gate: &mut Gate) -> Result<()> {
    let mut config = client(kafka);
    config.set("fetch.wait.max.ms", "10");
    config.set("queued.max.messages.kbytes", "65536");
    let consumer: BaseConsumer = config.create()?;
    let mut from = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        from.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&from)?;
    let mut unread: i64 = ends.iter().sum();
    let mut beside = Vec::new();
    while unread > 0 {
        let message = consumer.poll(PATIENCE).context("Kafka answers in time")??;
        unread -= 1;
        beside.clear();
        beside_the_payload(&message, &mut beside);
        let payload = message.payload().unwrap_or_default();
        ensure!(message.key().is_some(), "a message came without a key");
        gate.take(message.key(), payload, &beside)?;
    }
    Ok(())
}

/// What else must be the same, whoever sent it: partition and headers.
fn beside_the_payload(message: &BorrowedMessage<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&message.partition().to_be_bytes());
    for header in message.headers().into_iter().flat_map(Headers::iter) {
        out.extend_from_slice(header.key.as_bytes());
        out.push(0);
        out.extend_from_slice(header.value.unwrap_or_default());
        out.push(0);
    }
}
