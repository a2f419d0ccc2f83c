//! Real servers for tests: each has a folder and a port of its own, and none outlives the test
//! process, however that ends.
//!
//! - A test that only uses a server takes the one its whole binary shares, from [`shared`], and a
//!   database, topic, stream or bucket of its own on it.
//! - A test that stops, kills or freezes a server starts one of its own: `Kafka::start().await`.
//! - A [`Proxy`] in front of a server plays the network that fails. It is that of the conformance
//!   kit.
//!
//! `make test-servers` installs the servers. Set `OUTBOX_TESTS_KEEP=1` to keep their folders and
//! logs after the test.

mod background;
mod folder;
mod installed;
mod kafka;
mod kafka_topics;
mod nats;
mod pgbouncer;
mod port;
mod postgres;
mod postgres_backup;
mod postgres_database;
mod process;
mod redis;
mod s3;
pub mod shared;
mod spawner;
mod versions;

pub use outbox_sinks::conformance::{Mode, Proxy};

pub use installed::cache as installed_in;
pub use kafka::{Kafka, KafkaOptions};
pub use kafka_topics::KafkaMessage;
pub use nats::{Nats, NatsOptions};
pub use pgbouncer::PgBouncer;
pub use port::free_port;
pub use postgres::{Postgres, PostgresOptions, PostgresVersion, Shutdown};
pub use postgres_database::Database;
pub use redis::{Redis, RedisEntry, RedisOptions};
pub use s3::S3;
pub use versions::{ServerVersion, list};
