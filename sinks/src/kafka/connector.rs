//! Probes the cluster and opens sinks.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use outbox::Event;
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

    /// The message's key. Messages without one have no order among themselves, so each
    /// event is on its own. One that lacks a field of the template can't be sent in any
    /// case, and goes by its subject.
    fn key<'e>(&self, event: &'e Event) -> Cow<'e, str> {
        match self.settings.key.render(event) {
            Ok(key) if key.is_empty() => Cow::Owned(event.position().to_string()),
            Ok(key) => Cow::Owned(key),
            Err(_) => Cow::Borrowed(event.subject()),
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

#[cfg(test)]
mod tests {
    use super::super::config::Kind;
    use super::*;
    use crate::{Position, SinkKind};

    fn key(template: &str, seq: i64, payload: &str) -> String {
        let settings = serde_json::json!({ "brokers": ["a:1"], "key": template });
        let connector = Kind::connector("test", serde_json::from_value(settings).unwrap()).unwrap();
        let event = Event::new(Position::new(1, seq), "a.b", payload.to_owned());
        connector.key(&event).into_owned()
    }

    #[test]
    fn the_order_is_that_of_the_key_template() {
        let payload = r#"{"id":"e","type":"a.b","tenantId":"t","subject":"node/7"}"#;
        assert_eq!(key("{subject}", 1, payload), "node/7");
        assert_eq!(key("{tenantId}/x", 1, payload), "t/x");
        assert_eq!(key("fixed", 1, payload), key("fixed", 2, payload));
    }

    #[test]
    fn events_without_a_key_have_no_order_among_themselves() {
        let payload = r#"{"id":"e","type":"a.b","subject":"node/7"}"#;
        assert_ne!(key("", 1, payload), key("", 2, payload));
        assert_ne!(
            key("{tenantId:-}", 1, payload),
            key("{tenantId:-}", 2, payload)
        );
    }

    #[test]
    fn an_event_that_lacks_its_key_goes_by_its_subject() {
        let payload = r#"{"id":"e","type":"a.b","subject":"node/7"}"#;
        assert_eq!(key("{tenantId}", 1, payload), "node/7");
    }
}
