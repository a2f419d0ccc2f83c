//! The settings, as they are written and as they are once checked.
//!
//! Every contradiction is found here, all at once and before anything connects. A secret is shown by
//! none of the problems, which is why the library's own errors about the URL are not passed on.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use outbox_sinks::schemars::{self, JsonSchema};
use outbox_sinks::settings::{Period, Secret};
use outbox_sinks::{Connector, Encoder, Format, Problems, SinkKind, Template};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use serde::Deserialize;

use crate::durability::Durability;
use crate::sink::RedisConnector;

/// The kind `redis`, to be registered with the runtime.
///
/// ```no_run
/// use example_redis_streams::RedisStreams;
/// use outbox_runtime::{Registry, cli};
/// fn main() -> std::process::ExitCode {
///     cli::main(Registry::builtin().register::<RedisStreams>())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RedisStreams;

impl SinkKind for RedisStreams {
    const NAME: &'static str = "redis";
    type Settings = Settings;

    fn connector(_name: &str, settings: Settings) -> Result<Box<dyn Connector>, Problems> {
        Ok(Box::new(RedisConnector::new(Config::check(settings)?)))
    }
}

/// Redis streams: one entry for each event, in order within a stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The server: `redis://host:port/database`, or `rediss://…` with TLS. May hold user and password.
    pub url: Secret,
    /// The user's name, unless the URL has it.
    pub user: Option<String>,
    /// The user's password, unless the URL has it.
    pub password: Option<Secret>,
    /// A file with the user's password.
    pub password_file: Option<PathBuf>,
    /// The stream that an event goes to.
    #[serde(default = "default_stream")]
    pub stream: Template,
    /// The form of an entry's field `data`.
    #[serde(default)]
    pub format: Format,
    /// The CloudEvents source.
    #[serde(default = "Encoder::default_source")]
    pub source: String,
    /// Keep about this many entries in each stream, and drop older ones, read or not.
    pub max_len: Option<NonZeroUsize>,
    /// What the server must promise.
    #[serde(default)]
    pub durability: Durability,
    /// How long to wait for one answer.
    #[serde(default = "default_response_timeout")]
    pub response_timeout: Period,
}

fn default_stream() -> Template {
    "events.{area}".parse().expect("the default is a template")
}

const fn default_response_timeout() -> Period {
    Period::from_secs(10)
}

/// Checked settings.
#[derive(Debug)]
pub(crate) struct Config {
    /// Where the server is. Holds neither user nor password: the sink logs in itself.
    pub(crate) server: ConnectionInfo,
    pub(crate) database: i64,
    pub(crate) login: Option<Login>,
    pub(crate) stream: Template,
    pub(crate) encoder: Encoder,
    pub(crate) max_len: Option<NonZeroUsize>,
    pub(crate) durability: Durability,
    pub(crate) response_timeout: Duration,
}

/// How the sink says who it is.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Secret,
}

impl Config {
    pub(crate) fn check(settings: Settings) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let server = server(&settings.url, &mut problems);
        let file = settings.password_file.as_deref();
        let password = Secret::resolve("password", settings.password, file);
        let password = problems.note("password", password).flatten();
        let (url_user, url_password) = server.as_ref().map_or((None, None), in_url);
        let user = one_of("user", url_user, settings.user, &mut problems);
        let password = one_of("password", url_password, password, &mut problems);
        if user.is_some() && password.is_none() {
            problems.add("user", "a user needs a `password` or `password_file`");
        }
        if settings.stream.as_fixed() == Some("") {
            problems.add("stream", "name a stream");
        }
        if settings.response_timeout.is_zero() {
            problems.add("response_timeout", "must be longer than zero");
        }
        problems.into_result()?;
        let server = server.expect("a URL that can't be used is a problem");
        Ok(Self {
            database: server.redis_settings().db(),
            server: server
                .set_redis_settings(RedisConnectionInfo::default().set_skip_set_lib_name()),
            login: password.map(|password| Login { user, password }),
            stream: settings.stream,
            encoder: Encoder::new(settings.format, settings.source),
            max_len: settings.max_len,
            durability: settings.durability,
            response_timeout: settings.response_timeout.into(),
        })
    }

    /// The server's address, for people.
    pub(crate) fn address(&self) -> String {
        self.server.addr().to_string()
    }
}

fn server(url: &Secret, problems: &mut Problems) -> Option<ConnectionInfo> {
    let Ok(server) = url.expose().into_connection_info() else {
        problems.add(
            "url",
            "write redis://host:port, or rediss://host:port for TLS; /2 at the end selects database 2",
        );
        return None;
    };
    if let ConnectionAddr::TcpTls { insecure: true, .. } = server.addr() {
        problems.add(
            "url",
            "certificates are always verified: remove #insecure, and trust the server's authority instead",
        );
    }
    Some(server)
}

fn in_url(server: &ConnectionInfo) -> (Option<String>, Option<Secret>) {
    let login = server.redis_settings();
    (
        login.username().map(str::to_owned),
        login.password().map(Secret::new),
    )
}

fn one_of<T>(key: &str, in_url: Option<T>, given: Option<T>, problems: &mut Problems) -> Option<T> {
    if in_url.is_some() && given.is_some() {
        problems.add(key, format!("give the {key} here or in `url`, not both"));
    }
    in_url.or(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str) -> Result<Config, Problems> {
        Config::check(serde_json::from_str(json).expect("serde has nothing against it"))
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once_and_no_secret_with_it() {
        for (json, expected) in [
            (
                r#"{"url":"http://u:hush@h","password":"hush","password_file":"/x","response_timeout":"0s","stream":""}"#,
                &["url", "password", "stream", "response_timeout"][..],
            ),
            (
                r#"{"url":"redis://u:hush@h","user":"u","password":"hush"}"#,
                &["user", "password"],
            ),
            (r#"{"url":"redis://h","user":"u"}"#, &["user"]),
            (r#"{"url":"rediss://:hush@h#insecure"}"#, &["url"]),
            (r#"{"url":"redis://:hush@h/hush"}"#, &["url"]),
            (r#"{"url":"redis://:hush@h?protocol=hush"}"#, &["url"]),
        ] {
            let problems = check(json).unwrap_err();
            let keys: Vec<_> = problems.iter().map(|p| p.key.as_str()).collect();
            assert_eq!(keys, expected, "{json}");
            assert!(!problems.to_string().contains("hush"), "{problems}");
        }
    }

    #[test]
    fn a_password_is_taken_from_the_url_and_not_shown() {
        let config = check(r#"{"url":"redis://ann:h%75sh@h:1/3"}"#).unwrap();
        let login = config.login.as_ref().unwrap();
        assert_eq!(login.user.as_deref(), Some("ann"));
        assert_eq!(login.password.expose(), "hush");
        assert_eq!((config.database, config.address().as_str()), (3, "h:1"));
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    }

    #[test]
    fn settings_are_strict() {
        for json in [
            r#"{"url":"redis://h","strem":"x"}"#,
            r#"{"url":"redis://h","max_len":0}"#,
            r#"{"url":"redis://h","durability":"mostly"}"#,
        ] {
            assert!(serde_json::from_str::<Settings>(json).is_err(), "{json}");
        }
    }
}
