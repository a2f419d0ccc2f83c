//! What the worker and its loops are told, after the configuration was read and
//! checked. Every field here changes what they do.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use outbox::Filter;
use outbox_sinks::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

/// What all loops of a process share.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Who holds the leases: unique for each running process.
    pub holder: String,
    /// How long a lease is good for without being renewed.
    pub lease_ttl: Duration,
    /// How long a delivery in hand may still take after a stop was asked for.
    pub shutdown_timeout: Duration,
    /// The longest pause between two looks at the head while nothing happens.
    pub poll_max_interval: Duration,
    /// How long what was delivered may wait until the cursor says so; zero: not at all.
    pub cursor_save_interval: Duration,
    /// How often a cursor is saved only because events were filtered out.
    pub cursor_idle_save: Duration,
    /// What this process does.
    pub roles: Roles,
    /// When rows of the outbox are deleted, if this process does that.
    pub retention: RetentionSettings,
}

/// What a process does of all that there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// It delivers the events of the configured sinks.
    pub sinks: bool,
    /// It deletes the rows that every cursor has passed.
    pub retention: bool,
    /// It answers HTTP: metrics, health and status.
    pub http: bool,
}

impl Roles {
    /// Everything.
    pub const ALL: Self = Self {
        sinks: true,
        retention: true,
        http: true,
    };
}

impl Default for Roles {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        let mut all = Self {
            sinks: false,
            retention: false,
            http: false,
        };
        for role in roles {
            match role {
                Role::Sinks => all.sinks = true,
                Role::Retention => all.retention = true,
                Role::Http => all.http = true,
            }
        }
        all
    }
}

/// One of the things that a process can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Deliver the events of the configured sinks
    Sinks,
    /// Delete the rows that every cursor has passed
    Retention,
    /// Answer HTTP: metrics, health and status
    Http,
}

/// What the role `http` is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// The address and port to listen on; port 0 takes any that is free.
    pub listen: SocketAddr,
}

/// One configured sink.
#[derive(Clone, Debug)]
pub struct SinkSettings {
    /// The name: its lease is `singleton:outbox-dispatch:<name>`, its cursor `sink:<name>`.
    pub name: String,
    /// The events it takes.
    pub filter: Filter,
    /// Where it begins when it has no cursor yet.
    pub start: Start,
    /// The operator's limits of a batch; what is `None` is up to the destination.
    pub batch: BatchOverrides,
    /// The pauses between failed deliveries.
    pub retry: RetrySettings,
    /// How long one delivery may take before it counts as failed.
    pub delivery_timeout: Duration,
    /// When an event counts as poison, and what becomes of it.
    pub poison: PoisonSettings,
}

/// When an event counts as poison, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoisonSettings {
    /// How often in a row an event must be refused alone.
    pub attempts: u32,
    /// What becomes of it, and of an event that can never be sent.
    pub on_poison: OnPoison,
    /// The fuse: with more dead letters than this within `window` the sink is paused.
    pub max_dead_letters: u32,
    /// The time over which the fuse counts.
    pub window: Duration,
}

impl Default for PoisonSettings {
    fn default() -> Self {
        Self {
            attempts: 5,
            on_poison: OnPoison::DeadLetter,
            max_dead_letters: 100,
            window: Duration::from_secs(3_600),
        }
    }
}

/// What becomes of an event that a destination will never take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnPoison {
    /// It goes to the dead letters, and the flow goes on.
    #[default]
    DeadLetter,
    /// The sink is paused.
    Halt,
}

/// When rows of the outbox are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionSettings {
    /// How old a row must be, even if every cursor has passed it.
    pub min_age: Duration,
    /// The pause between two passes.
    pub interval: Duration,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            min_age: Duration::from_secs(3_600),
            interval: Duration::from_secs(300),
        }
    }
}

/// Where a new sink begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With the oldest event that is still in the outbox.
    #[default]
    Beginning,
    /// With what is published from now on.
    Head,
}

/// The operator's limits of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchOverrides {
    /// Number of events.
    pub max_events: Option<usize>,
    /// Sum of payload bytes.
    pub max_bytes: Option<usize>,
    /// Age of the first event since it was read.
    pub max_wait: Option<Duration>,
}

/// The pauses between failed deliveries: `initial`, doubling up to `max`, with jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// The first pause.
    pub initial: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(300),
        }
    }
}
