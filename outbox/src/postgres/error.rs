//! What can go wrong with the database, in the few kinds that call for
//! different actions, each with a sentence that says what to do.
//!
//! No message holds the password or a payload: errors end up in logs.

use std::fmt;
use std::time::Duration;

use sqlx::postgres::PgDatabaseError;

/// A failed use of the database: which kind of failure, and in doing what.
///
/// `Display` prints one sentence; the driver's own error is the source.
#[derive(Debug)]
pub struct DatabaseError {
    kind: DatabaseErrorKind,
    message: String,
    source: Option<sqlx::Error>,
}

/// What a failure calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseErrorKind {
    /// An outage: the server is unreachable, restarting, full, too slow or a
    /// standby. Waiting and trying again is right.
    Unreachable,
    /// The server refuses the role, its password or its rights.
    Denied,
    /// The tables are not there (or older than this program).
    NotMigrated,
    /// A setting that can't work: a malformed URL, an unfit server, a pooler.
    Misconfigured,
    /// Anything else; trying again may help.
    Other,
}

impl DatabaseError {
    /// What the failure calls for.
    #[must_use]
    pub const fn kind(&self) -> DatabaseErrorKind {
        self.kind
    }

    /// Whether the next answer may come from another server than the last, or from one
    /// that has lost commits. A server that says what it can't do is still the same one.
    pub(crate) fn breaks_history(&self) -> bool {
        let told = self
            .source
            .as_ref()
            .and_then(sqlx::Error::as_database_error);
        let code = told.and_then(|told| told.code());
        let same_server = code.is_some_and(|code| code == "57014" || code.starts_with("53"));
        self.kind == DatabaseErrorKind::Unreachable && !same_server
    }

    pub(crate) fn misconfigured(message: impl Into<String>) -> Self {
        Self::told(DatabaseErrorKind::Misconfigured, message)
    }

    pub(crate) fn told(kind: DatabaseErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// No answer within the deadline.
    pub(crate) fn timed_out(deadline: Duration) -> Self {
        let message = format!("Postgres gave no answer within {deadline:?}");
        Self::told(DatabaseErrorKind::Unreachable, message)
    }

    /// The same failure, with what was being attempted in front.
    pub(crate) fn while_doing(mut self, doing: &str) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }
}

impl From<sqlx::Error> for DatabaseError {
    fn from(error: sqlx::Error) -> Self {
        let (kind, advice) = classify(&error);
        let message = match error.as_database_error() {
            Some(told) => format!("Postgres says: {}{advice}", told.message()),
            None => format!("{error}{advice}"),
        };
        Self {
            kind,
            message,
            source: Some(error),
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the driver's list of errors is open, and what is not known calls for nothing special"
)]
fn classify(error: &sqlx::Error) -> (DatabaseErrorKind, &'static str) {
    use DatabaseErrorKind::{Denied, Misconfigured, Other, Unreachable};
    match error {
        sqlx::Error::Database(told) => match told.try_downcast_ref::<PgDatabaseError>() {
            Some(told) => classify_code(told.code()),
            None => (Other, ""),
        },
        sqlx::Error::Io(_) => (
            Unreachable,
            " (is the server running, and are host and port right?)",
        ),
        sqlx::Error::PoolTimedOut => (
            Unreachable,
            " (raise database.max_connections, or see what holds the connections)",
        ),
        sqlx::Error::WorkerCrashed => (Unreachable, ""),
        sqlx::Error::Configuration(_) => (Misconfigured, ""),
        sqlx::Error::Tls(_) => (
            Denied,
            " (check the server's certificate, and sslmode and sslrootcert in the URL)",
        ),
        _ => (Other, ""),
    }
}

/// The kind of failure behind an SQLSTATE.
fn classify_code(code: &str) -> (DatabaseErrorKind, &'static str) {
    use DatabaseErrorKind::{Denied, Misconfigured, NotMigrated, Other, Unreachable};
    match code {
        "42501" => (
            Denied,
            " (grant the role what it needs: sinks migrate --worker ROLE, --publisher ROLE, --operator ROLE or --retention ROLE)",
        ),
        "42P01" | "42883" | "42703" | "3F000" => (
            NotMigrated,
            " (the outbox is not migrated here, or by an older version: run `sinks migrate`, and check the schema's name)",
        ),
        "3D000" => (Misconfigured, " (check the database's name in the URL)"),
        "25006" => (
            Unreachable,
            " (this server is a standby: connect to the primary)",
        ),
        // An extended-protocol startup that a pooler does not pass on.
        "08P01" => (
            Misconfigured,
            " (if this is a pooler such as PgBouncer, connect to Postgres itself: a pooler drops the settings that make a lease safe)",
        ),
        "57014" => (Unreachable, " (a statement ran into its time limit)"),
        _ => match code.get(..2) {
            Some("28") => (Denied, " (check the user, the password and pg_hba.conf)"),
            // Connections, resources, an operator's intervention, the system.
            Some("08" | "53" | "57" | "58") => (Unreachable, ""),
            _ => (Other, ""),
        },
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DatabaseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_says_where_to_look() {
        let refused = sqlx::Error::Io(std::io::ErrorKind::ConnectionRefused.into());
        for (error, advice) in [
            (refused, "is the server running"),
            (sqlx::Error::PoolTimedOut, "max_connections"),
        ] {
            let error = DatabaseError::from(error);
            assert_eq!(error.kind(), DatabaseErrorKind::Unreachable);
            assert!(error.to_string().contains(advice), "{error}");
        }
    }

    #[test]
    fn codes_are_told_apart_by_what_they_call_for() {
        use DatabaseErrorKind::{Denied, Misconfigured, NotMigrated, Other, Unreachable};
        for (code, kind) in [
            ("57P01", Unreachable),
            ("57P03", Unreachable),
            ("53300", Unreachable),
            ("08006", Unreachable),
            ("25006", Unreachable),
            ("57014", Unreachable),
            ("28P01", Denied),
            ("28000", Denied),
            ("42501", Denied),
            ("42P01", NotMigrated),
            ("42883", NotMigrated),
            ("3D000", Misconfigured),
            ("08P01", Misconfigured),
            ("22012", Other),
            ("40001", Other),
        ] {
            assert_eq!(classify_code(code).0, kind, "{code}");
        }
    }
}
