//! The settings, and how they are checked before anything connects.

use std::path::PathBuf;
use std::str::FromStr;

use outbox_sinks::schemars::{self, JsonSchema};
use outbox_sinks::settings::{Period, Secret};
use outbox_sinks::{Connector, Encoder, Format, Problems, SinkKind, Template};
use serde::Deserialize;
use sqlx::postgres::PgConnectOptions;

use crate::sink::Table;
use crate::statements::Statements;

/// The kind `table`.
#[derive(Clone, Copy, Debug)]
pub struct PostgresTable;

/// A table in another Postgres: a row for each key, written in the transaction that stores
/// how far the sink has come.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The database, as `postgres://user@host:port/database`.
    url: Secret,
    /// The password, if it is not part of the URL.
    password: Option<Secret>,
    /// A file with the password.
    password_file: Option<PathBuf>,
    /// The table, such as "events" or "shop.events".
    #[serde(default = "table")]
    table: String,
    /// The table that holds how far each sink has come.
    #[serde(default = "progress_table")]
    progress_table: String,
    /// Whether tables that do not exist are created.
    #[serde(default = "yes")]
    create_tables: bool,
    /// The key of a row. With "{id}" each event has a row of its own; with "{subject}" there
    /// is one for each subject, and it holds the latest event.
    #[serde(default = "key")]
    key: Template,
    /// The form of the event in the column `body`.
    #[serde(default)]
    format: Format,
    /// The source attribute of the CloudEvents formats.
    #[serde(default = "Encoder::default_source")]
    source: String,
    /// How long to wait for a connection.
    #[serde(default = "connect_timeout")]
    connect_timeout: Period,
}

fn table() -> String {
    "events".to_owned()
}

fn progress_table() -> String {
    "outbox_progress".to_owned()
}

fn key() -> Template {
    "{id}".parse().expect("a template with a known field")
}

const fn yes() -> bool {
    true
}

const fn connect_timeout() -> Period {
    Period::from_secs(5)
}

impl SinkKind for PostgresTable {
    const NAME: &'static str = "table";
    type Settings = Settings;

    fn connector(_name: &str, settings: Settings) -> Result<Box<dyn Connector>, Problems> {
        let mut problems = Problems::default();
        let password = problems.note(
            "password_file",
            Secret::resolve(
                "password",
                settings.password,
                settings.password_file.as_deref(),
            ),
        );
        // The driver's own error would repeat what it could not read.
        let options = PgConnectOptions::from_str(settings.url.expose()).map_err(
            |_| "write postgres://user@host:port/database, with %40 for an @ in a password",
        );
        let options = problems.note("url", options);
        let events = problems.note("table", name(&settings.table));
        let progress = problems.note("progress_table", name(&settings.progress_table));
        if settings.table == settings.progress_table {
            problems.add("progress_table", "must not be the table of the events");
        }
        if settings.format == Format::CloudEventsBinary {
            problems.add("format", "a row has no headers: use native or cloudevents");
        }
        let (Some(password), Some(options), Some(events), Some(progress)) =
            (password, options, events, progress)
        else {
            return Err(problems);
        };
        problems.into_result()?;
        let options = match &password {
            Some(password) => options.password(password.expose()),
            None => options,
        };
        Ok(Box::new(Table {
            options: options.application_name("outbox sinks"),
            statements: Statements::new(&events, &progress),
            create_tables: settings.create_tables,
            key: settings.key,
            encoder: Encoder::new(settings.format, settings.source),
            connect_timeout: settings.connect_timeout.into(),
        }))
    }
}

/// A table's name, quoted. A name can't be bound like a value, so only plain ones are taken.
fn name(text: &str) -> Result<String, &'static str> {
    let plain = |part: &str| {
        let mut chars = part.chars();
        let first = chars
            .next()
            .is_some_and(|c| c.is_ascii_lowercase() || c == '_');
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        first && part.len() <= 63 && chars.all(legal)
    };
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > 2 || !parts.iter().all(|part| plain(part)) {
        return Err(
            "write a table or schema.table, each of a-z, 0-9 and _, not beginning with a digit",
        );
    }
    let quoted: Vec<_> = parts.iter().map(|part| format!("\"{part}\"")).collect();
    Ok(quoted.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_become_part_of_a_statement() {
        assert_eq!(name("shop.events"), Ok("\"shop\".\"events\"".to_owned()));
        for text in [
            "",
            "a.b.c",
            "Events",
            "1st",
            "e\"; drop table x",
            "a b",
            ".",
        ] {
            assert!(name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_in_a_malformed_url_is_not_repeated() {
        let settings = Settings {
            url: Secret::new("postgres://me:hush@host:port/x"),
            password: None,
            password_file: None,
            table: "a".to_owned(),
            progress_table: "a".to_owned(),
            create_tables: true,
            key: key(),
            format: Format::CloudEventsBinary,
            source: Encoder::default_source(),
            connect_timeout: connect_timeout(),
        };
        let problems = PostgresTable::connector("x", settings).unwrap_err();
        let keys: Vec<_> = problems.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, ["url", "progress_table", "format"], "all at once");
        assert!(!problems.to_string().contains("hush"));
    }
}
