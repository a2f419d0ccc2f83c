//! The settings of a NATS sink, as they are written.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checked::Config;
use super::sink::NatsConnector;
use crate::settings::{Period, Secret};
use crate::{Connector, Format, Problems, SinkKind, Template};

/// The kind `nats`.
#[derive(Clone, Copy, Debug)]
pub struct Nats;

impl SinkKind for Nats {
    const NAME: &'static str = "nats";
    type Settings = Settings;

    fn connector(name: &str, settings: Settings) -> Result<Box<dyn Connector>, Problems> {
        let config = Config::check(settings)?;
        Ok(Box::new(NatsConnector::new(name, config)))
    }
}

/// NATS JetStream: one message for each event, with the event's id for deduplication.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The servers, tried in this order: `nats://host:port`, or `tls://host:port`.
    pub servers: Vec<String>,
    /// The subject of an event's message, with fields of the event in it.
    #[serde(default = "default_subject")]
    pub subject: Template,
    /// Events of the same key are stored in order.
    #[serde(default = "default_key")]
    pub key: Template,
    /// The form of a message: `native` (the payload as published, with its sequence),
    /// `cloudevents` (structured) or `cloudevents-binary` (attributes as headers).
    #[serde(default)]
    pub format: Format,
    /// The `source` attribute of the CloudEvents formats.
    #[serde(default = "crate::Encoder::default_source")]
    pub source: String,
    /// The stream that must take the messages. Default: any that takes the subject.
    pub stream: Option<String>,
    /// With this table the stream is created if it does not exist.
    pub create_stream: Option<CreateStream>,
    /// How many messages may be on their way at once.
    #[serde(default = "default_window")]
    pub window: NonZeroUsize,
    /// How long to wait for the acknowledgement of one message.
    #[serde(default = "default_ack_timeout")]
    pub ack_timeout: Period,
    /// The user's name.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
    /// A file with the user's password.
    pub password_file: Option<PathBuf>,
    /// A token instead of a user.
    pub token: Option<Secret>,
    /// A file with the token.
    pub token_file: Option<PathBuf>,
    /// A file with the seed of an nkey.
    pub nkey_seed_file: Option<PathBuf>,
    /// A credentials file (JWT and seed), as `nsc` writes it.
    pub credentials_file: Option<PathBuf>,
    /// Require TLS, and with which certificates.
    pub tls: Option<Tls>,
}

/// With this table no connection goes without TLS.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Tls {
    /// The authorities to trust instead of the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate, as PEM.
    pub cert_file: Option<PathBuf>,
    /// The key of the client's certificate, as PEM.
    pub key_file: Option<PathBuf>,
}

/// How the stream is created if it does not exist. One that exists is left as it is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CreateStream {
    /// The subjects the stream takes.
    pub subjects: Vec<String>,
    /// How many servers keep a copy: 1 to 5.
    #[serde(default = "default_replicas")]
    pub replicas: usize,
    /// Where messages are kept.
    #[serde(default)]
    pub storage: Storage,
    /// How long messages are kept; zero for ever.
    #[serde(default)]
    pub max_age: Period,
    /// How long the stream remembers ids to drop repetitions.
    #[serde(default = "default_duplicate_window")]
    pub duplicate_window: Period,
}

/// Where a created stream keeps its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Storage {
    /// On disk.
    #[default]
    File,
    /// In memory: a restart of the server loses the messages.
    Memory,
}

fn default_subject() -> Template {
    "events.{type}".parse().expect("the default is a template")
}

fn default_key() -> Template {
    "{subject:-}".parse().expect("the default is a template")
}

fn default_window() -> NonZeroUsize {
    NonZeroUsize::new(512).expect("512 is not zero")
}

fn default_ack_timeout() -> Period {
    Period::from_secs(5)
}

fn default_replicas() -> usize {
    1
}

fn default_duplicate_window() -> Period {
    Period::from_secs(120)
}
