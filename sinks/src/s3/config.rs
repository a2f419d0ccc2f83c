//! The settings of `[sinks.<name>.s3]`, and what is checked before anything connects.

use std::path::PathBuf;

use aws_credential_types::Credentials;
use schemars::JsonSchema;
use serde::Deserialize;

use super::body::Compression;
use super::client::{self, Access, Checksums};
use super::key::Layout;
use super::partition::PartitionBy;
use super::sink::{S3Connector, Writing};
use crate::settings::Secret;
use crate::{Connector, Encoder, Format, Problems, SinkKind};

/// The longest prefix, in bytes: it leaves three quarters of a key to partition and name.
const MAX_PREFIX_BYTES: usize = 256;

/// The kind `s3`.
#[derive(Debug)]
pub struct Kind;

/// S3 and stores that speak its protocol: objects of many events, one JSON object a line.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The bucket's name, or an access point's ARN. It must exist.
    pub bucket: String,
    /// The folder for everything this sink writes. Default: the bucket's root.
    #[serde(default)]
    pub prefix: String,
    /// The form of a line: `native` or `cloudevents`.
    #[serde(default)]
    pub format: Format,
    /// The `source` attribute of the CloudEvents format.
    #[serde(default = "crate::Encoder::default_source")]
    pub source: String,
    /// How objects are compressed.
    #[serde(default)]
    pub compression: Compression,
    /// The levels of partitions, outermost first. Default: none.
    #[serde(default)]
    pub partition_by: Vec<PartitionBy>,
    /// Whether an object is only put where there is none yet (`If-None-Match: *`).
    #[serde(default = "default_conditional_put")]
    pub conditional_put: bool,
    /// The bucket's region. Default: what the AWS environment says; with an
    /// `endpoint`, `us-east-1`.
    pub region: Option<String>,
    /// The URL of a store that speaks S3's protocol.
    pub endpoint: Option<String>,
    /// Whether the bucket is in the URL's path instead of its host name. Default:
    /// yes with an `endpoint`.
    pub path_style: Option<bool>,
    /// Which requests carry the newer checksums. Default: `when-required` with an
    /// `endpoint`, `when-supported` without.
    pub checksums: Option<Checksums>,
    /// A PEM file with further certificate authorities.
    pub ca_file: Option<PathBuf>,
    /// The access key. Default: the AWS credentials chain (environment, profile,
    /// web identity, container, instance).
    pub access_key_id: Option<String>,
    /// The access key's secret.
    pub secret_access_key: Option<Secret>,
    /// A file that holds the access key's secret.
    pub secret_access_key_file: Option<PathBuf>,
    /// The session token of temporary credentials.
    pub session_token: Option<Secret>,
    /// A file that holds the session token.
    pub session_token_file: Option<PathBuf>,
}

const fn default_conditional_put() -> bool {
    true
}

impl SinkKind for Kind {
    const NAME: &'static str = "s3";

    type Settings = Settings;

    fn connector(name: &str, settings: Settings) -> Result<Box<dyn Connector>, Problems> {
        Ok(Box::new(check(name, settings)?))
    }
}

fn check(name: &str, settings: Settings) -> Result<S3Connector, Problems> {
    let mut problems = Problems::default();
    problems.note("bucket", check_bucket(&settings.bucket));
    let prefix = problems.note("prefix", check_prefix(&settings.prefix));
    if settings.format == Format::CloudEventsBinary {
        problems.add(
            "format",
            "a line of an object has no headers: use `cloudevents` or `native`",
        );
    }
    problems.note("partition_by", check_partitions(&settings.partition_by));
    if let Some(endpoint) = &settings.endpoint {
        problems.note("endpoint", check_endpoint(endpoint));
    }
    let ca_pem = settings
        .ca_file
        .as_deref()
        .and_then(|path| problems.note("ca_file", client::read_certificates(path)));
    let custom = settings.endpoint.is_some();
    let access = Access {
        region: settings
            .region
            .clone()
            .or_else(|| custom.then(|| "us-east-1".to_owned())),
        path_style: settings.path_style.unwrap_or(custom),
        checksums: settings.checksums.unwrap_or(if custom {
            Checksums::WhenRequired
        } else {
            Checksums::WhenSupported
        }),
        endpoint: settings.endpoint.clone(),
        ca_pem,
        credentials: credentials(&settings, &mut problems),
    };
    problems.into_result()?;
    Ok(S3Connector {
        access,
        bucket: settings.bucket,
        conditional_put: settings.conditional_put,
        writing: Writing {
            sink: name.to_owned(),
            encoder: Encoder::new(settings.format, settings.source),
            compression: settings.compression,
            layout: Layout {
                prefix: prefix.unwrap_or_default(),
                partition_by: settings.partition_by,
                extension: settings.compression.extension(),
            },
        },
    })
}

fn check_bucket(bucket: &str) -> Result<(), &'static str> {
    let is_arn = bucket.starts_with("arn:");
    if bucket.is_empty() {
        Err("name the bucket")
    } else if bucket.contains("://") || (bucket.contains('/') && !is_arn) {
        Err("give the bucket's name alone; a folder in it is the `prefix`")
    } else if bucket.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Err("a bucket's name has no white space")
    } else {
        Ok(())
    }
}

/// The prefix, empty or ending with `/`.
fn check_prefix(prefix: &str) -> Result<String, String> {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    if prefix.is_empty() {
        return Ok(String::new());
    }
    if prefix.len() > MAX_PREFIX_BYTES {
        return Err(format!("at most {MAX_PREFIX_BYTES} bytes"));
    }
    if prefix.contains(char::is_control) {
        return Err("control characters can't be listed".to_owned());
    }
    // Such segments are legal in a key, and lost or resolved by many tools on the way.
    if prefix
        .split('/')
        .any(|part| matches!(part, "" | "." | ".."))
    {
        return Err("write folders as `a/b`: no empty part, no `.`, no `..`".to_owned());
    }
    Ok(format!("{prefix}/"))
}

fn check_partitions(levels: &[PartitionBy]) -> Result<(), &'static str> {
    let twice = (1..).zip(levels).any(|(next, level)| {
        levels
            .get(next..)
            .is_some_and(|others| others.contains(level))
    });
    if twice {
        Err("each field can be named once")
    } else {
        Ok(())
    }
}

fn check_endpoint(endpoint: &str) -> Result<(), &'static str> {
    let rest = endpoint
        .strip_prefix("https://")
        .or_else(|| endpoint.strip_prefix("http://"))
        .ok_or("begin with https:// (or http://, unencrypted)")?;
    if rest.contains('@') {
        Err("credentials do not belong in the URL: use `access_key_id` and `secret_access_key`")
    } else if rest.is_empty() || rest.contains(['?', '#']) || rest.contains(char::is_whitespace) {
        Err("write it as https://host:port")
    } else {
        Ok(())
    }
}

fn credentials(settings: &Settings, problems: &mut Problems) -> Option<Credentials> {
    let mut resolve = |key: &str, inline: &Option<Secret>, file: &Option<PathBuf>| {
        let secret = Secret::resolve(key, inline.clone(), file.as_deref());
        problems.note(key, secret).flatten()
    };
    let secret = resolve(
        "secret_access_key",
        &settings.secret_access_key,
        &settings.secret_access_key_file,
    );
    let token = resolve(
        "session_token",
        &settings.session_token,
        &settings.session_token_file,
    );
    match (&settings.access_key_id, secret) {
        (Some(id), Some(secret)) => {
            let token = token.map(|token| token.expose().to_owned());
            Some(Credentials::new(
                id,
                secret.expose(),
                token,
                None,
                "settings",
            ))
        }
        (None, None) => {
            if token.is_some() {
                problems.add("access_key_id", "`session_token` needs it");
            }
            None
        }
        (Some(_), None) => {
            problems.add("secret_access_key", "`access_key_id` needs it");
            None
        }
        (None, Some(_)) => {
            problems.add("access_key_id", "`secret_access_key` needs it");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: serde_json::Value) -> Settings {
        serde_json::from_value(json).unwrap()
    }

    fn wrong_keys(json: serde_json::Value) -> Vec<String> {
        let problems = check("s", settings(json)).map(|_| ()).unwrap_err();
        problems.iter().map(|problem| problem.key.clone()).collect()
    }

    #[test]
    fn a_bucket_is_all_it_needs() {
        let connector = check("s", settings(serde_json::json!({"bucket": "events"}))).unwrap();
        assert_eq!(connector.access.region, None);
        assert!(!connector.access.path_style);
        assert_eq!(connector.access.checksums, Checksums::WhenSupported);
        assert!(connector.conditional_put);
        assert_eq!(connector.writing.layout.prefix, "");
    }

    #[test]
    fn an_endpoint_changes_the_defaults_to_what_other_stores_understand() {
        let json = serde_json::json!({"bucket": "events", "endpoint": "http://127.0.0.1:9000"});
        let connector = check("s", settings(json)).unwrap();
        assert_eq!(connector.access.region.as_deref(), Some("us-east-1"));
        assert!(connector.access.path_style);
        assert_eq!(connector.access.checksums, Checksums::WhenRequired);
    }

    #[test]
    fn all_wrong_settings_are_reported_at_once() {
        let keys = wrong_keys(serde_json::json!({
            "bucket": "s3://events",
            "prefix": "a//b",
            "format": "cloudevents-binary",
            "partition_by": ["type", "date", "type"],
            "endpoint": "minio:9000",
            "ca_file": "/nonexistent/ca.pem",
            "access_key_id": "AKIA",
        }));
        assert_eq!(
            keys,
            [
                "bucket",
                "prefix",
                "format",
                "partition_by",
                "endpoint",
                "ca_file",
                "secret_access_key"
            ]
        );
    }

    #[test]
    fn half_of_the_credentials_is_a_problem() {
        for (json, key) in [
            (
                serde_json::json!({"bucket": "b", "secret_access_key": "x"}),
                "access_key_id",
            ),
            (
                serde_json::json!({"bucket": "b", "session_token": "x"}),
                "access_key_id",
            ),
            (
                serde_json::json!({"bucket": "b", "endpoint": "https://key:hush@host"}),
                "endpoint",
            ),
        ] {
            assert_eq!(wrong_keys(json), [key]);
        }
    }

    #[test]
    fn an_unknown_key_or_value_is_refused() {
        for json in [
            serde_json::json!({"bucket": "b", "buckett": "b"}),
            serde_json::json!({"bucket": "b", "compression": "lz4"}),
            serde_json::json!({"bucket": "b", "partition_by": ["tenant"]}),
            serde_json::json!({}),
        ] {
            assert!(serde_json::from_value::<Settings>(json).is_err());
        }
    }

    #[test]
    fn settings_show_no_secret() {
        let json = serde_json::json!({
            "bucket": "b", "access_key_id": "AKIA", "secret_access_key": "hush", "session_token": "hush",
        });
        let settings = settings(json);
        let shown = format!("{settings:?} {:?}", check("s", self::settings(serde_json::json!({
            "bucket": "b", "access_key_id": "AKIA", "secret_access_key": "hush", "session_token": "hush",
        }))).unwrap().access);
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn a_prefix_ends_with_one_slash() {
        assert_eq!(check_prefix("a/b c").unwrap(), "a/b c/");
        assert_eq!(check_prefix("a/").unwrap(), "a/");
        for wrong in ["/a", "a//", "a/../b", "a\n", "//"] {
            assert!(check_prefix(wrong).is_err(), "{wrong}");
        }
    }
}
