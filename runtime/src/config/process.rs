//! The tables about the process itself: `[database]`, `[worker]`, `[poll]`,
//! `[cursor]`, `[retention]`, `[http]` and `[log]`.

use std::time::Duration;

use outbox::{ConnectSettings, Schema};
use outbox_sinks::settings::Secret;
use tracing_subscriber::EnvFilter;

use super::document::Document;
use super::key::Key;
use super::sections::{self, Log};
use super::{limits, read::read};
use crate::settings::{HttpSettings, RetentionSettings, WorkerSettings};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The year that durations are written in.
const YEAR: Duration = Duration::from_secs(31_557_600);

/// Reads `[database]`; whatever is wrong is noted.
pub(super) fn database(document: &mut Document<'_>) -> Option<ConnectSettings> {
    let key = Key::of(["database"]);
    let section: sections::Database = read(document, &key)?;
    let url = url(document, &key, section.url, section.url_file.as_deref());
    let max = key.child("max_connections");
    limits::number(document, &max, &section.max_connections, &(2..=1000));
    for (name, value) in [
        ("connect_timeout", *section.connect_timeout),
        ("statement_timeout", *section.statement_timeout),
    ] {
        limits::duration(document, &key.child(name), value, 100 * MILLISECOND..=HOUR);
    }
    let schema = Schema::new(&section.schema);
    if schema.is_err() {
        let message = "a schema's name has 1 to 63 bytes and does not begin with pg_";
        document.report(&key.child("schema"), message);
    }
    Some(ConnectSettings {
        schema: schema.ok()?,
        max_connections: section.max_connections,
        connect_timeout: *section.connect_timeout,
        statement_timeout: *section.statement_timeout,
        ..ConnectSettings::new(url?.expose().to_owned())
    })
}

fn url(
    document: &mut Document<'_>,
    key: &Key,
    inline: Option<Secret>,
    file: Option<&std::path::Path>,
) -> Option<Secret> {
    let at = key.child(if file.is_some() { "url_file" } else { "url" });
    match Secret::resolve("url", inline, file) {
        Ok(Some(url)) => {
            let scheme = url.expose().split_once("://").map(|(scheme, _)| scheme);
            if !matches!(scheme, Some("postgres" | "postgresql")) {
                let message = "must begin with postgres://, as in postgres://user@host/database";
                document.report(&at, message);
            }
            Some(url)
        }
        Ok(None) => {
            if !document.lost(&at) {
                let message = "missing; write url = \"${DATABASE_URL}\" in [database], or url_file";
                document.report(&at, message);
            }
            None
        }
        Err(message) => {
            document.report(&at, message);
            None
        }
    }
}

/// Reads `[worker]`, `[poll]`, `[cursor]` and `[retention]`; whatever is wrong is noted.
pub(super) fn worker(document: &mut Document<'_>) -> Option<WorkerSettings> {
    let key = Key::of(["worker"]);
    let worker: Option<sections::Worker> = read(document, &key);
    let poll: Option<sections::Poll> = read(document, &Key::of(["poll"]));
    let cursor: Option<sections::Cursor> = read(document, &Key::of(["cursor"]));
    let retention = retention(document);
    let (worker, poll, cursor) = (worker?, poll?, cursor?);
    let is_holder = |name: &String| (1..=128).contains(&name.chars().count());
    if !worker.name.as_ref().is_none_or(is_holder) {
        document.report(
            &key.child("name"),
            "a worker's name has 1 to 128 characters",
        );
    }
    if worker.roles.is_empty() {
        let message = "a worker has at least one role: sinks, retention, http";
        document.report(&key.child("roles"), message);
    }
    for (key, value, limits) in [
        (key.child("lease_ttl"), *worker.lease_ttl, SECOND..=HOUR),
        (
            key.child("shutdown_timeout"),
            *worker.shutdown_timeout,
            Duration::ZERO..=HOUR,
        ),
        (
            Key::of(["poll", "max_interval"]),
            *poll.max_interval,
            MILLISECOND..=60 * SECOND,
        ),
        (
            Key::of(["cursor", "save_interval"]),
            *cursor.save_interval,
            Duration::ZERO..=60 * SECOND,
        ),
        (
            Key::of(["cursor", "idle_save"]),
            *cursor.idle_save,
            MILLISECOND..=DAY,
        ),
    ] {
        limits::duration(document, &key, value, limits);
    }
    Some(WorkerSettings {
        holder: holder(worker.name),
        lease_ttl: *worker.lease_ttl,
        shutdown_timeout: *worker.shutdown_timeout,
        poll_max_interval: *poll.max_interval,
        cursor_save_interval: *cursor.save_interval,
        cursor_idle_save: *cursor.idle_save,
        roles: worker.roles.into_iter().collect(),
        retention: retention?,
    })
}

/// Reads `[retention]`; whatever is wrong is noted.
pub(super) fn retention(document: &mut Document<'_>) -> Option<RetentionSettings> {
    let key = Key::of(["retention"]);
    let section: sections::Retention = read(document, &key)?;
    let (min_age, interval) = (*section.min_age, *section.interval);
    let (age, pause) = (key.child("min_age"), key.child("interval"));
    limits::duration(document, &age, min_age, Duration::ZERO..=10 * YEAR);
    limits::duration(document, &pause, interval, SECOND..=DAY);
    Some(RetentionSettings { min_age, interval })
}

/// Reads `[http]`; whatever is wrong is noted.
pub(super) fn http(document: &mut Document<'_>) -> Option<HttpSettings> {
    let key = Key::of(["http"]);
    let sections::Http { listen } = read(document, &key)?;
    let address = listen.parse();
    if address.is_err() {
        let message = "an IP address and a port, such as 127.0.0.1:8269 or [::1]:8269";
        document.report(&key.child("listen"), message);
    }
    Some(HttpSettings {
        listen: address.ok()?,
    })
}

/// `name-random` or `host-pid-random`: tells a person where to look, and two
/// processes apart that share a name (a file that replicas share, or host name and
/// pid, as containers do). Two holders of one name would take each other's leases.
fn holder(name: Option<String>) -> String {
    let random = uuid::Uuid::now_v7().simple().to_string();
    let tail = random.get(24..).unwrap_or(&random);
    let name = name.unwrap_or_else(|| {
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy();
        format!("{host}-{}", std::process::id())
    });
    format!("{name}-{tail}")
}

/// Reads `[log]`; whatever is wrong is noted.
pub(super) fn log(document: &mut Document<'_>) -> Option<Log> {
    let key = Key::of(["log"]);
    let log: Log = read(document, &key)?;
    if EnvFilter::try_new(&log.filter).is_err() {
        let message = "no such directive; write a level such as info, or info,outbox_runtime=debug";
        document.report(&key.child("filter"), message);
    }
    Some(log)
}
