//! What is left of the settings once they are checked.
//!
//! Files are read and every contradiction is found here, all at once and before
//! anything connects.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::ServerAddr;
use async_nats::jetstream::stream::{Config as StreamConfig, StorageType};

use super::config::{CreateStream, Settings, Storage, Tls};
use super::subject;
use crate::settings::{Secret, check_pem_files};
use crate::{Encoder, Format, Problems, Template};

/// Checked settings.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) servers: Vec<ServerAddr>,
    pub(super) subject: Template,
    pub(super) key: Template,
    pub(super) format: Format,
    pub(super) encoder: Encoder,
    pub(super) stream: Option<String>,
    pub(super) create: Option<StreamConfig>,
    pub(super) window: usize,
    pub(super) ack_timeout: Duration,
    pub(super) auth: Auth,
    pub(super) tls: Option<Tls>,
}

/// How the sink says who it is.
#[derive(Debug)]
pub(super) enum Auth {
    Nobody,
    User { user: String, password: Secret },
    Token(Secret),
    Nkey(Secret),
    Credentials(Secret),
}

impl Config {
    pub(super) fn check(settings: Settings) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let servers = servers(&settings.servers, &mut problems);
        let auth = auth(&settings, &mut problems);
        if let Some(tls) = &settings.tls {
            check_pem_files(
                tls.ca_file.as_deref(),
                tls.cert_file.as_deref(),
                tls.key_file.as_deref(),
                &mut problems,
            );
        }
        if let Some(rule) = settings.subject.as_fixed().and_then(subject::broken_rule) {
            problems.add("subject", rule);
        }
        if settings.ack_timeout.is_zero() {
            problems.add("ack_timeout", "must be longer than zero");
        }
        let stream = settings.stream;
        if let Some(name) = &stream
            && (name.is_empty()
                || name.contains(|c: char| c.is_whitespace() || ".*>/\\".contains(c)))
        {
            problems.add(
                "stream",
                "a stream's name has no spaces, dots, slashes or wildcards",
            );
        }
        let create = settings.create_stream.map(|create| {
            stream_config(create, stream.as_deref(), &settings.subject, &mut problems)
        });
        problems.into_result()?;
        Ok(Self {
            servers,
            subject: settings.subject,
            key: settings.key,
            format: settings.format,
            encoder: Encoder::new(settings.format, settings.source),
            stream,
            create,
            window: settings.window.get(),
            ack_timeout: *settings.ack_timeout,
            auth,
            tls: settings.tls,
        })
    }
}

fn servers(urls: &[String], problems: &mut Problems) -> Vec<ServerAddr> {
    if urls.is_empty() {
        problems.add(
            "servers",
            "name at least one server, like nats://localhost:4222",
        );
    }
    let parse = |url: &String| match url.parse::<ServerAddr>() {
        // A refused URL is not repeated: it may hold a password.
        Err(_) => Err("not the address of a server: write nats://host:port or tls://host:port"),
        Ok(address) if address.username().is_some() || address.password().is_some() => {
            Err("put the user, password or token into their own settings, not into the address")
        }
        Ok(address) if !["nats", "tls"].contains(&address.scheme()) => {
            Err("only nats:// and tls:// are supported")
        }
        Ok(address) => Ok(address),
    };
    urls.iter()
        .filter_map(|url| problems.note("servers", parse(url)))
        .collect()
}

fn auth(settings: &Settings, problems: &mut Problems) -> Auth {
    let mut secret = |key: &str, inline: Option<&Secret>, file: Option<&PathBuf>| {
        let place = if file.is_some() {
            format!("{key}_file")
        } else {
            key.to_owned()
        };
        let found = Secret::resolve(key, inline.cloned(), file.map(PathBuf::as_path));
        problems.note(&place, found).flatten()
    };
    let password = secret(
        "password",
        settings.password.as_ref(),
        settings.password_file.as_ref(),
    );
    let token = secret(
        "token",
        settings.token.as_ref(),
        settings.token_file.as_ref(),
    );
    let nkey = secret("nkey_seed", None, settings.nkey_seed_file.as_ref());
    let credentials = secret("credentials", None, settings.credentials_file.as_ref());
    let user = settings.user.clone();
    let named = [
        user.is_some() || password.is_some(),
        token.is_some(),
        nkey.is_some(),
        credentials.is_some(),
    ];
    if named.into_iter().filter(|given| *given).count() > 1 {
        problems.add(
            "user",
            "give one of user and password, token, nkey_seed_file, credentials_file",
        );
    }
    match (user, password) {
        (Some(user), Some(password)) => return Auth::User { user, password },
        (Some(_), None) => problems.add("password", "a user needs a password or a password_file"),
        (None, Some(_)) => problems.add("user", "a password needs a user"),
        (None, None) => {}
    }
    let token = token.map(Auth::Token);
    let nkey = nkey.map(Auth::Nkey);
    let credentials = credentials.map(Auth::Credentials);
    token.or(nkey).or(credentials).unwrap_or(Auth::Nobody)
}

fn stream_config(
    create: CreateStream,
    stream: Option<&str>,
    subject: &Template,
    problems: &mut Problems,
) -> StreamConfig {
    if stream.is_none() {
        problems.add("stream", "create_stream needs the name of the stream");
    }
    let ours = subject::pattern(subject);
    if !create
        .subjects
        .iter()
        .any(|theirs| subject::overlap(theirs, &ours))
    {
        problems.add(
            "create_stream.subjects",
            format!("none of them takes what `subject` gives: {ours}"),
        );
    }
    if !(1..=5).contains(&create.replicas) {
        problems.add("create_stream.replicas", "from 1 to 5");
    }
    if !create.max_age.is_zero() && create.duplicate_window > create.max_age {
        problems.add(
            "create_stream.duplicate_window",
            "can't be longer than max_age",
        );
    }
    StreamConfig {
        name: stream.unwrap_or_default().to_owned(),
        subjects: create.subjects,
        num_replicas: create.replicas,
        storage: match create.storage {
            Storage::File => StorageType::File,
            Storage::Memory => StorageType::Memory,
        },
        max_age: *create.max_age,
        duplicate_window: *create.duplicate_window,
        ..StreamConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str) -> Result<Config, Problems> {
        Config::check(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn the_defaults_need_only_a_server() {
        let config = check(r#"{"servers":["nats://localhost"]}"#).unwrap();
        assert_eq!(config.window, 512);
        assert!(matches!(config.auth, Auth::Nobody));
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let json = r#"{"servers":["nats://localhost"],"windw":3}"#;
        let error = serde_json::from_str::<Settings>(json).unwrap_err();
        assert!(error.to_string().contains("windw"));
    }

    #[test]
    fn every_contradiction_is_found_at_once() {
        let problems = check(
            r#"{"servers":["nats://u:hush@h","http://h"],"user":"u","token":"hush","subject":"a..b",
                "ack_timeout":"0s","tls":{"cert_file":"/nonexistent"},
                "create_stream":{"subjects":["orders.>"],"replicas":9}}"#,
        )
        .unwrap_err();
        let keys: Vec<_> = problems
            .iter()
            .map(|problem| problem.key.as_str())
            .collect();
        for key in [
            "servers",
            "user",
            "password",
            "subject",
            "ack_timeout",
            "tls.cert_file",
            "stream",
            "create_stream.subjects",
            "create_stream.replicas",
        ] {
            assert!(keys.contains(&key), "{key} in {keys:?}");
        }
        assert!(!problems.to_string().contains("hush"), "{problems}");
    }

    #[test]
    fn debugging_the_settings_shows_no_secret() {
        let json = r#"{"servers":["nats://h"],"user":"u","password":"hush"}"#;
        let config = check(json).unwrap();
        assert!(!format!("{config:?}").contains("hush"));
    }
}
