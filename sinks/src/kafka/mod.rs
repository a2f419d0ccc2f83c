//! Sink `kafka`: events become messages of an Apache Kafka topic.
//!
//! ```toml
//! [sinks.orders.kafka]
//! brokers = ["kafka-1:9093", "kafka-2:9093"]
//! topic = "events.{area}"
//! key = "{subject}"
//! format = "native"
//! tls = { ca_file = "/etc/sinks/ca.pem" }
//! sasl = { mechanism = "SCRAM-SHA-512", username = "sinks", password_file = "/run/secrets/kafka" }
//! librdkafka = { "linger.ms" = 5 }
//! ```
//!
//! Every message is acknowledged by all in-sync replicas before it counts as
//! delivered. Messages of one key go to one partition, the one that a Java producer
//! would choose, and keep their order (OB-4): the producer is idempotent and gapless,
//! and at the first failure it stops and takes back what it has not sent yet. A
//! producer that has seen a failure is not used again; the next delivery gets a fresh one.
//! While the last acknowledgements of a batch are awaited, the next one is handed over.
//!
//! What each error comes to is decided in `classify`, and told to operators in
//! `docs/sinks/kafka.md`; a test compares the two.
//!
//! Read in this order: `config`, `options`, `security`, `connector`, `sink`, `message`,
//! `names`, `known`, `budget`, `passage`, `producer`, `reports`, `verdicts`, `classify`, `log`.

mod budget;
mod classify;
mod config;
mod connector;
mod known;
mod log;
mod message;
mod names;
mod options;
mod passage;
mod producer;
mod reports;
mod security;
mod sink;
mod verdicts;

pub use config::{Compression, Kind, Mechanism, OptionValue, Sasl, Settings, Tls};
