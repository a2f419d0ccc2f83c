//! The tables as this program needs them, or a sentence that says what to do.

use outbox::{ConnectSettings, Database, Schema, SchemaState, schema_state};

use super::exit::{Failure, Status};
use super::logs;
use super::source::Source;
use crate::config::DatabaseConfig;

/// What a command needs that delivers nothing: the configuration and the database, whose
/// tables are as needed. `application` is what the server shows.
pub(super) async fn open(
    source: &Source,
    application: &str,
) -> Result<(DatabaseConfig, Database), Failure> {
    let mut config = source.database_config()?;
    logs::start(&config.log);
    application.clone_into(&mut config.database.application_name);
    require_current(&config.database).await?;
    let database = Database::lazy(&config.database);
    Ok((config, database))
}

/// Connects, and refuses tables of another version than this program's.
pub(super) async fn require_current(settings: &ConnectSettings) -> Result<(), Failure> {
    let mut connection = settings.open().await?;
    let state = schema_state(&mut connection, &settings.schema)
        .await
        .map_err(|error| Failure::from(error).while_doing("look at the outbox's migrations"))?;
    match advice(state, &settings.schema) {
        None => Ok(()),
        Some(message) => Err(Failure::new(Status::Schema, message)),
    }
}

/// What to do about tables that are not as needed.
pub(super) fn advice(state: SchemaState, schema: &Schema) -> Option<String> {
    let schema = schema.name();
    match state {
        SchemaState::Current => None,
        SchemaState::Missing => Some(format!(
            "there is no outbox in schema {schema}: run `sinks migrate`, or name the right schema in [database]"
        )),
        SchemaState::Behind { applied, wanted } => Some(format!(
            "the outbox in schema {schema} is at migration {applied} and this program needs {wanted}: run `sinks migrate`"
        )),
        SchemaState::Ahead { applied, wanted } => Some(format!(
            "the outbox in schema {schema} is at migration {applied} and this program knows {wanted}: upgrade this program"
        )),
    }
}
