//! Connecting to Postgres, with an error that a person can act on.
//!
//! No message, `Debug` or log line holds the password. A server that can't serve
//! (too old, a standby, a pooler that drops session settings) is refused at once.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, Row};
use tokio::time::timeout;

use super::error::{DatabaseError, DatabaseErrorKind};
use super::schema::Schema;

/// Postgres 13 brought `xid8` and `gen_random_uuid()`.
const OLDEST_SERVER: i32 = 130_000;

/// Where the database is, and how long anything with it may take.
#[derive(Clone, Debug)]
pub struct ConnectSettings {
    /// `postgres://user:password@host:port/database`. Never shown.
    pub url: SecretString,
    /// The schema of the outbox.
    pub schema: Schema,
    /// What `pg_stat_activity` shows.
    pub application_name: String,
    /// The most connections that this process keeps, at least 1. Leases have two more
    /// of their own, so that no renewal waits for a read.
    pub max_connections: u32,
    /// How long connecting, or waiting for a free connection, may take.
    pub connect_timeout: Duration,
    /// How long one statement may take.
    pub statement_timeout: Duration,
}

impl ConnectSettings {
    /// Settings with schema `public`, 10 connections, 5 s to connect and 30 s a statement.
    #[must_use]
    pub fn new(url: impl Into<SecretString>) -> Self {
        Self {
            url: url.into(),
            schema: Schema::default(),
            application_name: "outbox".to_owned(),
            max_connections: 10,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
        }
    }

    /// Opens one connection and makes sure that the server can serve.
    ///
    /// # Errors
    /// [`DatabaseError`], which names host, port and database and says what to do.
    pub async fn open(&self) -> Result<PgConnection, DatabaseError> {
        let options = self.options()?;
        let target = target(&options);
        let connecting = async {
            let mut connection = PgConnection::connect_with(&options).await?;
            self.inspect(&mut connection).await?;
            Ok(connection)
        };
        match timeout(self.connect_timeout, connecting).await {
            Ok(result) => result,
            Err(_) => Err(DatabaseError::timed_out(self.connect_timeout)),
        }
        .map_err(|error| error.while_doing(&format!("connect to Postgres at {target}")))
    }

    fn options(&self) -> Result<PgConnectOptions, DatabaseError> {
        let url = self.url.expose_secret();
        known_parameters_only(url)?;
        let options: PgConnectOptions = url.parse().map_err(|_| {
            DatabaseError::misconfigured(
                "the database URL is malformed: write postgres://user:password@host:port/database, \
                 with %40 for an @ in the password",
            )
        })?;
        let timeout_ms = self.statement_timeout.as_millis().to_string();
        Ok(options
            .application_name(&self.application_name)
            .disable_statement_logging()
            .options([
                ("statement_timeout", timeout_ms.as_str()),
                ("lock_timeout", &timeout_ms),
                ("idle_in_transaction_session_timeout", &timeout_ms),
                // Fencing counts on a blocked statement seeing what it waited for.
                ("default_transaction_isolation", "read committed"),
                // A token or a cursor that was handed out must survive a crash: a lost
                // one would come again, and with it whoever it fenced off.
                ("synchronous_commit", "on"),
                // Every statement of ours walks an index: stale statistics shall not
                // talk the planner into sorting a backlog, nor into compiling the plan.
                ("enable_seqscan", "off"),
                ("enable_bitmapscan", "off"),
                ("jit", "off"),
                // And a plan is good whatever the values are: to make one anew for each look
                // at the head, as the planner would like, takes three times as long as the
                // look itself.
                ("plan_cache_mode", "force_generic_plan"),
                // Parts of an answer come in the order in which they are written.
                ("max_parallel_workers_per_gather", "0"),
                ("tcp_keepalives_idle", "30"),
                ("tcp_keepalives_interval", "10"),
                ("tcp_keepalives_count", "3"),
            ]))
    }

    /// Refuses a server that can't serve. Asks by the simple protocol: behind a pooler a
    /// prepared statement of one worker is in the way of the next one.
    async fn inspect(&self, connection: &mut PgConnection) -> Result<(), DatabaseError> {
        let row = sqlx::raw_sql(
            "select current_setting('server_version_num')::int4, pg_is_in_recovery(),
                 (select setting from pg_settings where name = 'statement_timeout'),
                 current_setting('enable_seqscan')",
        )
        .fetch_one(connection)
        .await?;
        let (version, standby): (i32, bool) = (row.try_get(0)?, row.try_get(1)?);
        let (timeout_ms, seqscan): (String, String) = (row.try_get(2)?, row.try_get(3)?);
        if version < OLDEST_SERVER {
            let message = format!(
                "this is Postgres {}, and the outbox needs 13 or newer",
                version / 10_000
            );
            return Err(DatabaseError::misconfigured(message));
        }
        // A server may have the one by chance, but not both.
        let asked_for = (
            self.statement_timeout.as_millis().to_string(),
            "off".to_owned(),
        );
        if (timeout_ms, seqscan) != asked_for {
            return Err(DatabaseError::misconfigured(
                "a pooler drops the session's settings: connect to Postgres itself and not through PgBouncer or the like",
            ));
        }
        if standby {
            return Err(DatabaseError::told(
                DatabaseErrorKind::Unreachable,
                "this server is a standby: connect to the primary",
            ));
        }
        Ok(())
    }
}

/// Refuses a parameter that the driver does not know: it would log the value.
fn known_parameters_only(url: &str) -> Result<(), DatabaseError> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let key = pair.split('=').next().unwrap_or_default();
        let known = matches!(
            key,
            "sslmode"
                | "ssl-mode"
                | "sslrootcert"
                | "ssl-root-cert"
                | "ssl-ca"
                | "sslcert"
                | "ssl-cert"
                | "sslkey"
                | "ssl-key"
                | "statement-cache-capacity"
                | "host"
                | "hostaddr"
                | "port"
                | "dbname"
                | "user"
                | "password"
                | "application_name"
                | "options"
        ) || (key.starts_with("options[") && key.ends_with(']'));
        if !known {
            let message = format!(
                "the database URL has an unknown parameter `{}`: the ones there are begin with ssl, or are host, port, dbname, user, password and options",
                key.escape_debug()
            );
            return Err(DatabaseError::misconfigured(message));
        }
    }
    Ok(())
}

/// Host, port and database, for messages.
fn target(options: &PgConnectOptions) -> String {
    let place = match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let database = options.get_database().unwrap_or(options.get_username());
    format!("{place}, database `{database}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_error_names_the_place_and_not_the_password() {
        let url = "postgres://someone:hush%40pw@127.0.0.1:1/shop";
        let settings = ConnectSettings::new(url.to_owned());
        let error = settings.open().await.unwrap_err();
        let shown = format!("{error} {error:?} {settings:?}");
        assert!(shown.contains("127.0.0.1:1, database `shop`"), "{shown}");
        assert!(!shown.contains("hush"), "{shown}");
        assert_eq!(error.kind(), DatabaseErrorKind::Unreachable);
    }

    #[tokio::test]
    async fn a_malformed_url_is_not_quoted() {
        for url in [
            "postgres://u:hush@h:port/x",
            "hush",
            "postgres://u:p@h/x?pasword=hush",
        ] {
            let error = ConnectSettings::new(url.to_owned())
                .open()
                .await
                .unwrap_err();
            assert_eq!(error.kind(), DatabaseErrorKind::Misconfigured, "{error}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
    }
}
