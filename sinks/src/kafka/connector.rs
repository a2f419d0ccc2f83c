//! Probes the cluster and opens sinks.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;

use super::budget::Budget;
use super::config::Settings;
use super::log::ClientLog;
use super::options::Options;
use super::producer::Producer;
use super::reports::Condition;
use super::sink::KafkaSink;
use super::verdicts::sink_error;
use crate::{BatchLimits, Connector, Session, Sink, SinkError, async_trait};

/// A configured Kafka destination.
pub(super) struct KafkaConnector {
    settings: Settings,
    options: Arc<Options>,
}

impl KafkaConnector {
    pub(super) fn new(settings: Settings, options: Options) -> Self {
        Self {
            settings,
            options: Arc::new(options),
        }
    }
}

/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

#[async_trait]
impl Connector for KafkaConnector {
    async fn probe(&self) -> Result<(), SinkError> {
        let doing = format!("probe Kafka at {}", self.settings.brokers.join(", "));
        let log = ClientLog::new("probe", self.options.secrets());
        let started = Producer::start(&self.options, &Budget::of(PROBE_TIMEOUT), &log).await;
        let producer = started.map_err(|error| start_error(&log, &error))?;
        let (metadata, producer) = producer.metadata(PROBE_TIMEOUT).await;
        let condition = producer.take_condition();
        producer.stop().await;
        match (metadata, condition) {
            (Ok(metadata), _) => match self.missing(&metadata) {
                Some(code) => Err(sink_error(&doing, &KafkaError::MetadataFetch(code), "")),
                None => Ok(()),
            },
            // Without an answer, the client's own condition tells why.
            (Err(_), Some(Condition { code, reason })) => {
                Err(sink_error(&doing, &KafkaError::Global(code), &reason))
            }
            (Err(error), None) => Err(sink_error(&doing, &error, "")),
        }
    }

    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        let budget = Budget::of(session.delivery_timeout);
        let log = ClientLog::new(&session.sink, self.options.secrets());
        let options = Arc::clone(&self.options);
        let sink = KafkaSink::open(&self.settings, options, budget, log).await?;
        Ok(Box::new(sink))
    }

    /// A delivery ends when its last event is acknowledged, so larger batches make
    /// more of a distant cluster's round trips.
    fn batch_limits(&self) -> BatchLimits {
        BatchLimits {
            max_events: 5_000,
            ..BatchLimits::default()
        }
    }
}

impl KafkaConnector {
    /// What is wrong with the topic, if there is only one and it is not fine.
    fn missing(&self, metadata: &Metadata) -> Option<RDKafkaErrorCode> {
        let fixed = self.settings.topic.as_fixed()?;
        match metadata.topics().iter().find(|topic| topic.name() == fixed) {
            None => Some(RDKafkaErrorCode::UnknownTopic),
            Some(topic) => topic.error().map(RDKafkaErrorCode::from),
        }
    }
}

/// The error for a client that can't even be made: certificates, mostly.
pub(super) fn start_error(log: &ClientLog, error: &KafkaError) -> SinkError {
    let reason = if let KafkaError::ClientCreation(reason) = error {
        log.scrub(reason)
    } else {
        String::new()
    };
    sink_error("start the Kafka client", error, &reason)
}
