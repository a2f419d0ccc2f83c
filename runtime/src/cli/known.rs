//! The sinks that a command can be about: those of the configuration, and those that
//! have left something in the database. Any other name is a mistake, and is told so.

use std::collections::BTreeSet;

use outbox::{Database, OperateError};

use super::exit::{Failure, Status};

/// Turns a refusal into what to say: a name that nobody knows is told apart from a sink
/// that no worker has opened yet.
pub(super) async fn explain(
    error: OperateError,
    configured: &[String],
    database: &Database,
) -> Failure {
    let OperateError::NoCursor(name) = &error else {
        return error.into();
    };
    if configured.contains(name) {
        return error.into();
    }
    match names(configured, database).await {
        Ok(known) => unknown(name, &known),
        Err(failure) => failure,
    }
}

/// Refuses names that neither the configuration nor the database knows.
pub(super) async fn require(
    names_given: &[String],
    configured: &[String],
    database: &Database,
) -> Result<(), Failure> {
    if names_given.iter().all(|name| configured.contains(name)) {
        return Ok(());
    }
    let mut known = names(configured, database).await?;
    known.extend(database.sinks_with_dead_letters().await?);
    match names_given.iter().find(|name| !known.contains(*name)) {
        Some(name) => Err(unknown(name, &known)),
        None => Ok(()),
    }
}

async fn names(configured: &[String], database: &Database) -> Result<BTreeSet<String>, Failure> {
    let cursors = database.cursors().await?;
    let with_cursor = cursors.into_iter().map(|cursor| cursor.sink);
    Ok(configured.iter().cloned().chain(with_cursor).collect())
}

fn unknown(name: &str, known: &BTreeSet<String>) -> Failure {
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    let message = match known.as_slice() {
        [] => format!("there is no sink `{name}`, nor any other: see `sinks status`"),
        known => format!("there is no sink `{name}`: known are {}", known.join(", ")),
    };
    Failure::new(Status::Configuration, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_told_with_the_known_ones() {
        let known = BTreeSet::from(["b".to_owned(), "a".to_owned()]);
        let failure = unknown("c", &known);
        assert_eq!(failure.status(), Status::Configuration);
        assert_eq!(failure.to_string(), "there is no sink `c`: known are a, b");
    }
}
