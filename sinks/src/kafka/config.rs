//! The settings of a Kafka sink, and how they make a connector.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::connector::KafkaConnector;
use super::{names, options};
use crate::settings::{Period, Secret, Size};
use crate::{Connector, Format, Problems, SinkKind, Template};

/// The kind `kafka`, to be registered with the runtime.
#[derive(Clone, Copy, Debug)]
pub struct Kind;

impl SinkKind for Kind {
    const NAME: &'static str = "kafka";
    type Settings = Settings;

    fn connector(name: &str, settings: Settings) -> Result<Box<dyn Connector>, Problems> {
        let mut problems = Problems::default();
        if let Some(topic) = settings.topic.as_fixed()
            && let Err(refusal) = names::check_topic(topic)
        {
            problems.add("topic", refusal.reason());
        }
        let options = options::Options::new(name, &settings, &mut problems);
        problems.into_result()?;
        Ok(Box::new(KafkaConnector::new(settings, options)))
    }
}

/// Kafka: one message for each event, acknowledged by all in-sync replicas.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// Where to find the cluster: `host:port`, at least one.
    pub brokers: Vec<String>,
    /// The topic: fixed, or with fields of the event in it, such as `events.{area}`; default
    /// `events`.
    #[serde(default = "default_topic")]
    pub topic: Template,
    /// The message key, which chooses the partition; default `{subject}`. An empty
    /// key is no key: such messages have no order among themselves.
    #[serde(default = "default_key")]
    pub key: Template,
    /// The form of a message: `native` (the payload as published, with its sequence),
    /// `cloudevents` (structured) or `cloudevents-binary` (attributes as headers); default
    /// `native`.
    #[serde(default)]
    pub format: Format,
    /// The `source` attribute of the CloudEvents formats; default `/outbox`.
    #[serde(default = "crate::Encoder::default_source")]
    pub source: String,
    /// How messages are compressed; default `lz4`.
    #[serde(default)]
    pub compression: Compression,
    /// How long a message may wait for others to fill a request; default 0, which
    /// sends as soon as the connection is free.
    #[serde(default)]
    pub linger: Period,
    /// The largest message, with its key and headers; default 1,000,000 bytes. It
    /// must not be above the topic's `max.message.bytes`.
    #[serde(default = "default_max_message_bytes")]
    pub max_message_bytes: Size,
    /// Encryption; without this table the connection is plain.
    pub tls: Option<Tls>,
    /// Authentication; without this table there is none, or the one by certificate.
    pub sasl: Option<Sasl>,
    /// Options passed to librdkafka as they are. What the sink sets itself is refused.
    #[serde(default)]
    pub librdkafka: BTreeMap<String, OptionValue>,
}

/// Encryption, and authentication by certificate. The broker's certificate and name
/// are always verified.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Tls {
    /// PEM file with the certificate authorities to trust; default the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the client's private key.
    pub key_file: Option<PathBuf>,
    /// Password of the private key.
    pub key_password: Option<Secret>,
    /// File that holds the password of the private key.
    pub key_password_file: Option<PathBuf>,
}

/// Authentication by SASL.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Sasl {
    /// Which of the mechanisms.
    pub mechanism: Mechanism,
    /// The user, for PLAIN and SCRAM.
    pub username: Option<String>,
    /// The user's password, for PLAIN and SCRAM.
    pub password: Option<Secret>,
    /// File that holds the password.
    pub password_file: Option<PathBuf>,
    /// For OAUTHBEARER: the URL that issues tokens (OpenID Connect, client credentials).
    pub token_endpoint: Option<String>,
    /// The client that tokens are issued to, for OAUTHBEARER.
    pub client_id: Option<String>,
    /// The client's secret, for OAUTHBEARER.
    pub client_secret: Option<Secret>,
    /// File that holds the client secret.
    pub client_secret_file: Option<PathBuf>,
    /// For OAUTHBEARER: the scope to ask for.
    pub scope: Option<String>,
    /// For OAUTHBEARER: `name=value` pairs for the broker, separated by commas.
    pub extensions: Option<String>,
}

/// A SASL mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[non_exhaustive]
pub enum Mechanism {
    /// User and password, as they are: use it with TLS only.
    #[serde(rename = "PLAIN")]
    Plain,
    /// User and password, proven with SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// User and password, proven with SHA-512.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// A token that an OpenID Connect provider issues.
    #[serde(rename = "OAUTHBEARER")]
    OAuthBearer,
}

impl Mechanism {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }
}

/// How messages are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// Slow, and known to every consumer.
    Gzip,
    /// Fast, small gain.
    Snappy,
    /// Fast, good gain.
    #[default]
    Lz4,
    /// The best gain, at more CPU.
    Zstd,
}

impl Compression {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// The value of a librdkafka option: a text, a number or a boolean. It may be a
/// secret, so it is never shown.
#[derive(Clone, Debug)]
pub struct OptionValue(Secret);

impl OptionValue {
    pub(super) fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl JsonSchema for OptionValue {
    fn schema_name() -> Cow<'static, str> {
        "OptionValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An option of librdkafka, passed on as it is.",
            "type": ["string", "number", "boolean"],
        })
    }
}

impl<'de> Deserialize<'de> for OptionValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyScalar;

        impl Visitor<'_> for AnyScalar {
            type Value = OptionValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number or a boolean")
            }

            fn visit_str<E>(self, value: &str) -> Result<OptionValue, E> {
                Ok(OptionValue(Secret::new(value)))
            }

            fn visit_i64<E>(self, value: i64) -> Result<OptionValue, E> {
                Ok(OptionValue(Secret::new(value.to_string())))
            }

            fn visit_u64<E>(self, value: u64) -> Result<OptionValue, E> {
                Ok(OptionValue(Secret::new(value.to_string())))
            }

            fn visit_f64<E>(self, value: f64) -> Result<OptionValue, E> {
                Ok(OptionValue(Secret::new(value.to_string())))
            }

            fn visit_bool<E>(self, value: bool) -> Result<OptionValue, E> {
                Ok(OptionValue(Secret::new(value.to_string())))
            }
        }

        deserializer.deserialize_any(AnyScalar)
    }
}

fn default_topic() -> Template {
    "events"
        .parse()
        .expect("a text without braces is a template")
}

fn default_key() -> Template {
    "{subject}"
        .parse()
        .expect("`subject` is a field of an event")
}

const fn default_max_message_bytes() -> Size {
    Size::bytes(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(settings: &str) -> Problems {
        let settings = serde_json::from_str(settings).expect("serde has nothing against them");
        Kind::connector("test", settings).expect_err("they are wrong")
    }

    fn keys(problems: &Problems) -> Vec<&str> {
        problems
            .iter()
            .map(|problem| problem.key.as_str())
            .collect()
    }

    #[test]
    fn wrong_settings_are_told_all_at_once_and_without_their_values() {
        let problems = problems(
            r#"{
                "brokers": ["a,b"],
                "topic": "a b",
                "max_message_bytes": 5000000,
                "tls": { "cert_file": "/nonexistent/cert.pem", "key_password": "hush" },
                "sasl": { "mechanism": "SCRAM-SHA-256", "username": "sinks", "client_id": "x" },
                "librdkafka": {
                    "acks": 1,
                    "no.such.option": true,
                    "queue.buffering.max.kbytes": 1000,
                    "socket.timeout.ms": "hush"
                }
            }"#,
        );
        let expected = [
            "topic",
            "librdkafka.acks",
            "librdkafka.no.such.option",
            "librdkafka.socket.timeout.ms",
            "brokers[0]",
            "tls.cert_file",
            "tls.cert_file",
            "sasl.client_id",
            "sasl.password",
            "librdkafka.queue.buffering.max.kbytes",
        ];
        assert_eq!(keys(&problems), expected);
        assert!(!problems.to_string().contains("hush"), "{problems}");
    }

    #[test]
    fn the_least_settings_are_the_brokers() {
        let settings = serde_json::from_str(r#"{ "brokers": ["localhost:9092"] }"#).unwrap();
        assert!(Kind::connector("test", settings).is_ok());
        let none = problems(r#"{ "brokers": [] }"#);
        assert_eq!(keys(&none), ["brokers"]);
        assert!(
            serde_json::from_str::<Settings>(r#"{ "brokers": ["a:1"], "tpoic": "x" }"#).is_err()
        );
    }

    #[test]
    fn every_mechanism_names_what_it_needs() {
        let password = problems(r#"{ "brokers": ["a:1"], "sasl": { "mechanism": "PLAIN" } }"#);
        assert_eq!(keys(&password), ["sasl.username", "sasl.password"]);
        let token = problems(r#"{ "brokers": ["a:1"], "sasl": { "mechanism": "OAUTHBEARER" } }"#);
        let needed = [
            "sasl.token_endpoint",
            "sasl.client_id",
            "sasl.client_secret",
        ];
        let missing: Vec<_> = keys(&token)
            .into_iter()
            .filter(|key| *key != "sasl.mechanism")
            .collect();
        assert_eq!(missing, needed);
        // Whether the client can fetch tokens is up to how it was built.
        let refused = keys(&token).contains(&"sasl.mechanism");
        assert_eq!(refused, !cfg!(feature = "kafka-oauth"));
    }

    #[test]
    fn no_secret_is_shown_when_settings_are_printed() {
        let settings: Settings = serde_json::from_str(
            r#"{ "brokers": ["a:1"], "sasl": { "mechanism": "PLAIN", "username": "u", "password": "hush" },
                 "librdkafka": { "ssl.keystore.password": "hush" } }"#,
        )
        .unwrap();
        assert!(!format!("{settings:?}").contains("hush"));
    }
}
