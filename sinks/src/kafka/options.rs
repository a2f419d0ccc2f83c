//! From settings to librdkafka's options: ours, the operator's, and which of them
//! the operator may not touch because a guarantee hangs on them.
//!
//! Option values can be secrets. No error quotes a value, and [`Secrets::scrub`]
//! removes those we know from whatever librdkafka says.

use std::sync::Arc;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

use super::budget::Budget;
use super::config::Settings;
use super::security;
use crate::Problems;
use crate::settings::Secret;

/// Options that are refused in the table `librdkafka`, and what to do instead.
const OWNED: [(&str, &str); 38] = [
    ("bootstrap.servers", "use the setting `brokers`"),
    ("metadata.broker.list", "use the setting `brokers`"),
    ("acks", ACKS),
    ("request.required.acks", ACKS),
    ("enable.idempotence", ORDER),
    ("enable.gapless.guarantee", ORDER),
    ("max.in.flight", ORDER),
    ("max.in.flight.requests.per.connection", ORDER),
    ("queuing.strategy", ORDER),
    ("retries", ORDER),
    ("message.send.max.retries", ORDER),
    (
        "partitioner",
        "the Java-compatible partitioner is always used",
    ),
    ("transactional.id", "the sink uses no transactions"),
    ("message.timeout.ms", TIMEOUT),
    ("delivery.timeout.ms", TIMEOUT),
    ("topic.metadata.propagation.max.ms", TIMEOUT),
    ("delivery.report.only.error", REPORTS),
    ("dr_cb", REPORTS),
    ("dr_msg_cb", REPORTS),
    ("enabled_events", REPORTS),
    ("log.queue", REPORTS),
    (
        "statistics.interval.ms",
        "the sink does not read statistics",
    ),
    ("compression.codec", "use the setting `compression`"),
    ("compression.type", "use the setting `compression`"),
    ("linger.ms", "use the setting `linger`"),
    ("queue.buffering.max.ms", "use the setting `linger`"),
    ("message.max.bytes", "use the setting `max_message_bytes`"),
    ("security.protocol", "use the settings `tls` and `sasl`"),
    ("ssl.ca.location", "use the setting `tls.ca_file`"),
    (
        "ssl.certificate.location",
        "use the setting `tls.cert_file`",
    ),
    ("ssl.key.location", "use the setting `tls.key_file`"),
    ("ssl.key.password", "use the setting `tls.key_password`"),
    ("sasl.mechanism", SASL),
    ("sasl.mechanisms", SASL),
    ("sasl.username", SASL),
    ("sasl.password", SASL),
    ("sasl.oauthbearer.method", SASL),
    ("sasl.oauthbearer.client.secret", SASL),
];
const ACKS: &str = "a message counts as delivered once all in-sync replicas have it (OB-1)";
const ORDER: &str = "the order within a key hangs on it (OB-4)";
const TIMEOUT: &str = "it follows from the sink's `delivery_timeout`";
const REPORTS: &str = "the sink needs every report of the client as it is";
const SASL: &str = "use the setting `sasl`";

/// The options of one sink, checked, without those that depend on the session.
pub(super) struct Options {
    client: ClientConfig,
    secrets: Secrets,
}

impl Options {
    /// Gathers and checks them. What is wrong is added to `problems`.
    pub(super) fn new(name: &str, settings: &Settings, problems: &mut Problems) -> Self {
        let mut options = Self {
            client: ClientConfig::new(),
            secrets: Secrets::default(),
        };
        // librdkafka's own level; what is shown is up to tracing's filter.
        options.client.set_log_level(RDKafkaLogLevel::Info);
        options.set("client.id", format!("outbox-sinks-{name}"));
        options.set("socket.keepalive.enable", "true");
        options.pass_through(settings, problems);
        options.connection(settings, problems);
        options.set("acks", "all");
        options.set("enable.idempotence", "true");
        // A refused request stops the producer, and brokers refuse what follows on it.
        options.set("enable.gapless.guarantee", "true");
        options.set("max.in.flight.requests.per.connection", "5");
        options.set("partitioner", "murmur2_random");
        options.set("compression.codec", settings.compression.as_str());
        options.set(
            "linger.ms",
            (settings.linger.as_secs_f64() * 1e3).to_string(),
        );
        options.message_size(settings, problems);
        options
    }

    /// The options for a session with this budget.
    pub(super) fn within(&self, budget: &Budget) -> ClientConfig {
        let mut client = self.client.clone();
        let millis = |duration: std::time::Duration| duration.as_millis().to_string();
        client.set("message.timeout.ms", millis(budget.message_timeout));
        client.set(
            "topic.metadata.propagation.max.ms",
            millis(budget.propagation),
        );
        if client.get("socket.connection.setup.timeout.ms").is_none() {
            client.set("socket.connection.setup.timeout.ms", millis(budget.connect));
        }
        client
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<String>) {
        self.client.set(key, value);
    }

    pub(super) fn set_secret(&mut self, key: &str, secret: Secret) {
        self.client.set(key, secret.expose());
        self.secrets.add(secret);
    }

    /// Sets an option that the client itself must judge.
    pub(super) fn set_checked(&mut self, key: &str, value: &str) -> Result<(), String> {
        check(key, value)?;
        self.set(key, value);
        Ok(())
    }

    fn pass_through(&mut self, settings: &Settings, problems: &mut Problems) {
        for (key, value) in &settings.librdkafka {
            let at = format!("librdkafka.{key}");
            if let Some((_, instead)) = OWNED.iter().find(|(owned, _)| owned == key) {
                problems.add(at, format!("the sink sets this option itself: {instead}"));
            } else if problems
                .note(&at, self.set_checked(key, value.expose()))
                .is_some()
            {
                if names_a_secret(key) {
                    self.secrets.add(Secret::new(value.expose()));
                }
                if key == "debug" {
                    self.client.set_log_level(RDKafkaLogLevel::Debug);
                }
            }
        }
    }

    fn message_size(&mut self, settings: &Settings, problems: &mut Problems) {
        let largest = settings.max_message_bytes.as_usize();
        let checked = self.set_checked("message.max.bytes", &largest.to_string());
        problems.note("max_message_bytes", checked);
        let room = self.client.get("queue.buffering.max.kbytes");
        let room = room.and_then(|text| text.parse::<usize>().ok());
        if room.is_some_and(|kbytes| kbytes.saturating_mul(1024) < largest) {
            problems.add(
                "librdkafka.queue.buffering.max.kbytes",
                format!("the queue must have room for one message of {largest} bytes (`max_message_bytes`)"),
            );
        }
    }

    fn connection(&mut self, settings: &Settings, problems: &mut Problems) {
        if settings.brokers.is_empty() {
            problems.add("brokers", "name at least one broker as \"host:port\"");
        }
        for (i, broker) in settings.brokers.iter().enumerate() {
            if broker.trim().is_empty()
                || broker.contains([',', '@'])
                || broker.contains(char::is_whitespace)
            {
                problems.add(format!("brokers[{i}]"), "write one broker as \"host:port\"");
            }
        }
        self.set("bootstrap.servers", settings.brokers.join(","));
        let protocol = match (&settings.tls, &settings.sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        self.set("security.protocol", protocol);
        if let Some(tls) = &settings.tls {
            security::tls(self, tls, problems);
        }
        if let Some(sasl) = &settings.sasl {
            security::sasl(self, sasl, problems);
        }
    }
}

/// Asks librdkafka whether it knows the option and takes the value.
fn check(key: &str, value: &str) -> Result<(), String> {
    let mut client = ClientConfig::new();
    client.set(key, value);
    match client.create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => {
            Err("librdkafka has no option of this name".to_owned())
        }
        // librdkafka's own words can quote the value.
        Err(_) => Err(
            "librdkafka does not take this value; its CONFIGURATION.md has the range".to_owned(),
        ),
    }
}

fn names_a_secret(option: &str) -> bool {
    ["password", "secret", "pem", "key", "assertion"]
        .iter()
        .any(|word| option.contains(word))
}

/// The secrets among the options, to be kept out of what librdkafka says.
#[derive(Clone, Default)]
pub(super) struct Secrets(Arc<Vec<Secret>>);

impl Secrets {
    fn add(&mut self, secret: Secret) {
        Arc::make_mut(&mut self.0).push(secret);
    }

    /// The text without any of the secrets.
    pub(super) fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.0.iter().map(Secret::expose) {
            if !secret.is_empty() && text.contains(secret) {
                text = text.replace(secret, "[hidden]");
            }
        }
        text
    }
}
