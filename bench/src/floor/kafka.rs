//! To Kafka: an idempotent producer with all acknowledgements, and the sink's options.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};
use tokio::time::{Instant, sleep};

use super::message::{self, Fields};
use super::protocol;
use super::rows::Source;
use crate::live::plain;

/// Where messages go.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// `host:port` of a broker.
    #[arg(long)]
    broker: String,
    /// The topic.
    #[arg(long)]
    topic: String,
}

/// Sends what is in memory.
///
/// # Errors
/// If anything is not delivered.
pub(super) async fn produce(source: &Source, target: &Target) -> Result<()> {
    let messages = message::all(source).await?;
    let sender = Sender::open(target)?;
    protocol::ready()?;
    let start = Instant::now();
    for message in &messages {
        sender.send(&message.fields(), &message.body).await?;
    }
    sender.finish()?;
    protocol::done(start.elapsed())
}

/// Reads pages and sends them.
///
/// # Errors
/// If anything is not delivered.
pub(super) async fn relay(source: &Source, target: &Target) -> Result<()> {
    let start = Instant::now();
    let sender = Sender::open(target)?;
    let mut pages = source.pages().await?;
    let mut body = Vec::new();
    loop {
        let rows = pages.next().await?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            body.clear();
            let fields = message::render(row, &mut body)?;
            sender.send(&fields, &body).await?;
        }
    }
    sender.finish()?;
    protocol::done(start.elapsed())
}

/// Ships what comes.
///
/// # Errors
/// If the database or the broker fails.
pub(super) async fn live(source: &Source, target: &Target) -> Result<()> {
    plain::run(source.database(), &target.broker, &target.topic).await
}

/// What the relay's sink sets, for every program that is compared with it.
pub(crate) fn options(broker: &str) -> ClientConfig {
    let mut options = ClientConfig::new();
    options
        .set("bootstrap.servers", broker)
        .set("client.id", "floor")
        .set("socket.keepalive.enable", "true")
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("enable.gapless.guarantee", "true")
        .set("max.in.flight.requests.per.connection", "5")
        .set("partitioner", "murmur2_random")
        .set("compression.codec", "lz4")
        .set("linger.ms", "0")
        .set("message.max.bytes", "1000000");
    options
}

struct Sender {
    producer: ThreadedProducer<Failures>,
    failures: Failures,
    topic: String,
}

impl Sender {
    fn open(target: &Target) -> Result<Self> {
        let failures = Failures::default();
        let producer = options(&target.broker)
            .create_with_context(failures.clone())
            .context("make a producer")?;
        Ok(Self {
            producer,
            failures,
            topic: target.topic.clone(),
        })
    }

    /// Hands a message over, which copies it. A full queue is waited for.
    async fn send(&self, fields: &Fields<'_>, body: &[u8]) -> Result<()> {
        let header = |key, value| Header {
            key,
            value: Some(value),
        };
        let mut record = BaseRecord::to(&self.topic)
            .key(fields.subject)
            .payload(body)
            .headers(
                OwnedHeaders::new_with_capacity(3)
                    .insert(header("id", fields.id))
                    .insert(header("type", fields.event_type))
                    .insert(header("content-type", "application/json")),
            );
        while let Err((error, back)) = self.producer.send(record) {
            ensure!(
                error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull),
                "send a message: {error}"
            );
            record = back;
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Waits for all acknowledgements.
    fn finish(&self) -> Result<()> {
        self.producer.flush(Duration::from_secs(60))?;
        let failed = self.failures.0.load(Ordering::Acquire);
        ensure!(failed == 0, "{failed} messages were not delivered");
        Ok(())
    }
}

/// Counts what was not delivered.
#[derive(Clone, Default)]
struct Failures(Arc<AtomicU64>);

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.0.fetch_add(1, Ordering::Release);
        }
    }
}
