//! The tables of `sinks.toml`, each with its keys and their defaults.
//!
//! What a default is stands here alone; the shipped file repeats it for people, and
//! a test compares the two.

use std::path::PathBuf;
use std::time::Duration;

use outbox_sinks::settings::{Secret, Size};
use serde::Deserialize;

use crate::settings::{OnPoison, PoisonSettings, RetentionSettings, Role};

/// `[database]`: the Postgres that holds the outbox.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Database {
    pub(super) url: Option<Secret>,
    pub(super) url_file: Option<PathBuf>,
    pub(super) schema: String,
    pub(super) max_connections: u32,
    #[serde(with = "humantime_serde")]
    pub(super) connect_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub(super) statement_timeout: Duration,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: None,
            url_file: None,
            schema: "public".to_owned(),
            max_connections: 10,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
        }
    }
}

/// `[worker]`: this process.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Worker {
    pub(super) name: Option<String>,
    pub(super) roles: Vec<Role>,
    #[serde(with = "humantime_serde")]
    pub(super) lease_ttl: Duration,
    #[serde(with = "humantime_serde")]
    pub(super) shutdown_timeout: Duration,
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            name: None,
            roles: vec![Role::Sinks, Role::Retention, Role::Http],
            lease_ttl: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(20),
        }
    }
}

/// `[poll]`: how the head of the outbox is watched.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Poll {
    #[serde(with = "humantime_serde")]
    pub(super) max_interval: Duration,
}

impl Default for Poll {
    fn default() -> Self {
        Self {
            max_interval: Duration::from_millis(250),
        }
    }
}

/// `[cursor]`: how progress is saved.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Cursor {
    #[serde(with = "humantime_serde")]
    pub(super) idle_save: Duration,
}

impl Default for Cursor {
    fn default() -> Self {
        Self {
            idle_save: Duration::from_secs(30),
        }
    }
}

/// `[retention]`: when rows are deleted that every cursor has passed.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Retention {
    #[serde(with = "humantime_serde")]
    pub(super) min_age: Duration,
    #[serde(with = "humantime_serde")]
    pub(super) interval: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let RetentionSettings { min_age, interval } = RetentionSettings::default();
        Self { min_age, interval }
    }
}

/// `[http]`: metrics, health and status.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Http {
    pub(super) listen: String,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8269".to_owned(),
        }
    }
}

/// `[log]`: what is said on standard error.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Log {
    /// The form of a line.
    pub format: LogFormat,
    /// What is logged, as tracing's directives: `info,outbox_runtime=debug`.
    pub filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            filter: "info".to_owned(),
        }
    }
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `[sinks.NAME]`, without the table of its kind.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Sink {
    pub(super) events: Vec<String>,
    pub(super) tenants: Vec<String>,
    pub(super) start: Start,
    #[serde(with = "humantime_serde")]
    pub(super) delivery_timeout: Duration,
    pub(super) on_poison: OnPoison,
    pub(super) batch: Batch,
    pub(super) retry: Retry,
    pub(super) poison: Poison,
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            tenants: Vec::new(),
            start: Start::Beginning,
            delivery_timeout: Duration::from_secs(60),
            on_poison: OnPoison::default(),
            batch: Batch::default(),
            retry: Retry::default(),
            poison: Poison::default(),
        }
    }
}

/// Where a new sink begins.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Start {
    Beginning,
    Head,
}

/// `[sinks.NAME.batch]`: what is absent is up to the destination.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Batch {
    pub(super) max_events: Option<usize>,
    pub(super) max_bytes: Option<Size>,
    #[serde(with = "humantime_serde")]
    pub(super) max_wait: Option<Duration>,
}

/// `[sinks.NAME.retry]`: the pauses between failed deliveries.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Retry {
    #[serde(with = "humantime_serde")]
    pub(super) initial: Duration,
    #[serde(with = "humantime_serde")]
    pub(super) max: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(300),
        }
    }
}

/// `[sinks.NAME.poison]`: when an event counts as poison, and when there are too many.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Poison {
    pub(super) attempts: u32,
    pub(super) max_dead_letters: u32,
    #[serde(with = "humantime_serde")]
    pub(super) window: Duration,
}

impl Default for Poison {
    fn default() -> Self {
        let settings = PoisonSettings::default();
        Self {
            attempts: settings.attempts,
            max_dead_letters: settings.max_dead_letters,
            window: settings.window,
        }
    }
}
