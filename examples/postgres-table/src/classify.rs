//! What an error of the database means. The same table is in the README; a test compares.
//!
//! The server's message may repeat a value of the row, so none of it is passed on where a
//! row is at fault.

use outbox_sinks::{ErrorKind, SinkError};
use sqlx::Error;

/// A rule: SQLSTATEs that begin so, what they mean, and what to do about them.
pub(crate) struct Rule {
    pub(crate) prefixes: &'static [&'static str],
    pub(crate) kind: ErrorKind,
    pub(crate) advice: &'static str,
}

/// The first that fits counts; what fits none is `Failed`.
pub(crate) const RULES: [Rule; 5] = [
    Rule {
        prefixes: &[
            "08", "53", "57", "58", "XX", "40001", "40P01", "55P03", "25006", "25P03",
        ],
        kind: ErrorKind::Unavailable,
        advice: "",
    },
    Rule {
        prefixes: &["28"],
        kind: ErrorKind::Misconfigured,
        advice: "check user and password, and what the server's pg_hba.conf allows",
    },
    Rule {
        prefixes: &["3D", "3F", "42P01", "42703", "42P10"],
        kind: ErrorKind::Misconfigured,
        advice: "create the database and the tables, or set create_tables = true",
    },
    Rule {
        prefixes: &["42501"],
        kind: ErrorKind::Misconfigured,
        advice: "grant select, insert and update on both tables to the sink's user, and create on \
                 their schema if they do not exist",
    },
    Rule {
        prefixes: &["22", "23"],
        kind: ErrorKind::Failed,
        advice: "",
    },
];

/// Judges an error of the driver. `doing` is what was tried, as "verb noun".
pub(crate) fn classify(doing: &str, error: Error) -> SinkError {
    let code = match &error {
        Error::Database(told) => told
            .code()
            .map(|code| code.into_owned())
            .unwrap_or_default(),
        // The connection broke, or what came over it was cut short.
        Error::Io(_) | Error::Protocol(_) | Error::WorkerCrashed => {
            return SinkError::unavailable(doing).with_source(error);
        }
        Error::Tls(_) => {
            let advice = "check the server's certificate, and sslmode and sslrootcert in the url";
            return SinkError::misconfigured(doing, advice).with_source(error);
        }
        Error::Configuration(_) => {
            let advice = "check the url and the files it names";
            return SinkError::misconfigured(doing, advice).with_source(error);
        }
        Error::RowNotFound => {
            let advice = "let nobody remove the sink's row while it runs; pause and resume it now";
            return SinkError::misconfigured(format!("{doing}: the progress is gone"), advice);
        }
        Error::InvalidArgument(_)
        | Error::TypeNotFound { .. }
        | Error::ColumnIndexOutOfBounds { .. }
        | Error::ColumnNotFound(_)
        | Error::ColumnDecode { .. }
        | Error::Encode(_)
        | Error::Decode(_)
        | Error::AnyDriverError(_)
        | Error::PoolTimedOut
        | Error::PoolClosed
        | Error::Migrate(_)
        | Error::InvalidSavePointStatement
        | Error::BeginFailed
        | _ => return SinkError::failed(doing).with_source(error),
    };
    let fits = |rule: &&Rule| rule.prefixes.iter().any(|prefix| code.starts_with(prefix));
    match RULES.iter().find(fits) {
        Some(Rule {
            kind: ErrorKind::Failed,
            ..
        })
        | None => SinkError::failed(format!(
            "{doing}: the database did not take it (SQLSTATE {code})"
        )),
        Some(rule) if rule.advice.is_empty() => SinkError::new(rule.kind, doing).with_source(error),
        Some(rule) => SinkError::new(rule.kind, doing)
            .with_advice(rule.advice)
            .with_source(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_the_same_table() {
        let readme = include_str!("../README.md");
        for rule in &RULES {
            let codes: Vec<_> = rule.prefixes.iter().map(|it| format!("`{it}`")).collect();
            let line = format!("| SQLSTATE {} | {} |", codes.join(", "), rule.kind);
            assert!(readme.contains(&line), "README.md lacks: {line}");
        }
    }

    #[test]
    fn a_broken_connection_is_an_outage() {
        let broken = Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(classify("commit", broken).kind(), ErrorKind::Unavailable);
    }
}
