//! The tables of `sinks.toml`, each with its keys and their defaults.
//!
//! What a default is stands here alone; the shipped file repeats it for people, and
//! a test compares the two. Doc comments are what an editor shows to an operator; the
//! limits in `schemars` attributes are those that `process` and `sink` enforce, and a
//! test compares these as well.

use std::path::PathBuf;

use outbox_sinks::schemars::{self, JsonSchema};
use outbox_sinks::settings::{Period, Secret, Size};
use serde::{Deserialize, Serialize};

use crate::settings::{OnPoison, PoisonSettings, RetentionSettings, Role};

/// The Postgres that holds the outbox, version 13 or newer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Database {
    /// A postgres:// URL, such as "${DATABASE_URL}".
    #[schemars(regex(pattern = "^postgres(ql)?://"))]
    pub(super) url: Option<Secret>,
    /// A file that holds the URL, instead of `url`.
    pub(super) url_file: Option<PathBuf>,
    /// The schema of the tables.
    #[schemars(length(min = 1, max = 63))]
    pub(super) schema: String,
    /// The most connections this process opens, besides two that its leases have to themselves and
    /// two for the pages of the role `http`.
    #[schemars(range(min = 2, max = 1000))]
    pub(super) max_connections: u32,
    /// How long opening a connection may take: 100ms to 1h.
    pub(super) connect_timeout: Period,
    /// How long a statement may take, on the server as well: 100ms to 1h.
    pub(super) statement_timeout: Period,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            url: None,
            url_file: None,
            schema: "public".to_owned(),
            max_connections: 10,
            connect_timeout: Period::from_secs(5),
            statement_timeout: Period::from_secs(30),
        }
    }
}

/// This process.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Worker {
    /// What this process calls itself in the leases. Default: host name and process id. A few
    /// random characters are added, so that replicas may share a name.
    #[schemars(length(min = 1, max = 128))]
    pub(super) name: Option<String>,
    /// What this process does: `sinks` delivers, `retention` deletes what every sink has passed,
    /// `http` shows metrics, health and status.
    /// `sinks run --role` overrides it.
    #[schemars(length(min = 1))]
    pub(super) roles: Vec<Role>,
    /// How long a sink stays ours when this process vanishes without letting go of it: 1s to 1h.
    pub(super) lease_ttl: Period,
    /// How long a delivery in hand may still take after SIGTERM, up to 1h. Keep it below the grace
    /// period of whatever stops the process.
    pub(super) shutdown_timeout: Period,
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            name: None,
            roles: vec![Role::Sinks, Role::Retention, Role::Http],
            lease_ttl: Period::from_secs(30),
            shutdown_timeout: Period::from_secs(20),
        }
    }
}

/// How the head of the outbox is watched.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Poll {
    /// The longest pause between two looks at the outbox while nothing happens: 1ms to 1m.
    pub(super) max_interval: Period,
}

impl Default for Poll {
    fn default() -> Self {
        Self {
            max_interval: Period::from_millis(250),
        }
    }
}

/// How progress is saved.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Cursor {
    /// How long progress may wait to be saved: what was delivered meanwhile comes again after a
    /// crash. 0s saves after each batch; up to 1m.
    pub(super) save_interval: Period,
    /// How often progress is saved that consists only of events a sink does not take: 1ms to 1day.
    pub(super) idle_save: Period,
}

impl Default for Cursor {
    fn default() -> Self {
        Self {
            save_interval: Period::from_millis(200),
            idle_save: Period::from_secs(30),
        }
    }
}

/// When rows of the outbox are deleted that every sink's cursor has passed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Retention {
    /// A row is deleted once every sink's cursor has passed it and it is at least this old: up to
    /// 10years.
    pub(super) min_age: Period,
    /// The pause between two passes: 1s to 1day.
    pub(super) interval: Period,
}

impl Default for Retention {
    fn default() -> Self {
        let RetentionSettings { min_age, interval } = RetentionSettings::default();
        Self {
            min_age: min_age.into(),
            interval: interval.into(),
        }
    }
}

/// Metrics, health and status over HTTP, for the role `http`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Http {
    /// The IP address and the port to listen on; port 0 takes a free one.
    #[schemars(regex(
        pattern = r"^([0-9.]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
    ))]
    pub(super) listen: String,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8269".to_owned(),
        }
    }
}

/// What is said on standard error.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// One sink: what it takes and, in one table, where to. Its name is the key of its
/// progress: renaming a sink starts it anew.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Sink {
    /// The events it takes, by type; * stands for any characters. Empty: all of them.
    #[schemars(inner(regex(pattern = r"^\S*[*.]\S*$")))]
    pub(super) events: Vec<String>,
    /// The tenants whose events it takes. Empty: all of them.
    #[schemars(inner(length(min = 1)))]
    pub(super) tenants: Vec<String>,
    /// Where it begins when it is new.
    pub(super) start: Start,
    /// How long one delivery may take before it counts as failed: 100ms to 1h.
    pub(super) delivery_timeout: Period,
    /// What becomes of an event that the destination will never take.
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
            delivery_timeout: Period::from_secs(60),
            on_poison: OnPoison::default(),
            batch: Batch::default(),
            retry: Retry::default(),
            poison: Poison::default(),
        }
    }
}

/// Where a new sink begins.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Start {
    /// The oldest event that is still in the outbox.
    Beginning,
    /// What is published from then on.
    Head,
}

/// A batch is delivered at the first of these limits. What is absent is up to the
/// destination: most send what is there at once, S3 waits for large objects.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Batch {
    /// The most events.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(super) max_events: Option<usize>,
    /// The most bytes of payload, 1KiB to 4GiB. A single larger event still makes a batch.
    pub(super) max_bytes: Option<Size>,
    /// How long the first event may wait for others: up to 1day.
    pub(super) max_wait: Option<Period>,
}

/// The pauses between failed deliveries: doubling from the first to the longest.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Retry {
    /// The first pause, from 1ms: not longer than `max`.
    pub(super) initial: Period,
    /// The longest pause, up to 1day.
    pub(super) max: Period,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            initial: Period::from_secs(1),
            max: Period::from_secs(300),
        }
    }
}

/// When an event is set aside, and when there are too many.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Poison {
    /// How often in a row the destination must refuse it alone. It must take another event besides:
    /// what refuses everything is out of order, and nothing is set aside.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) attempts: u32,
    /// The fuse: with more dead letters than this within the window the sink is paused.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) max_dead_letters: u32,
    /// The time over which the fuse counts: 1s to 30days.
    pub(super) window: Period,
}

impl Default for Poison {
    fn default() -> Self {
        let settings = PoisonSettings::default();
        Self {
            attempts: settings.attempts,
            max_dead_letters: settings.max_dead_letters,
            window: settings.window.into(),
        }
    }
}
