//! Creating the tables and bringing them up to date.
//!
//! The history is in `outbox_migrations`, in the outbox's own schema, so an
//! application's own migrations in the same database are not disturbed. Applying
//! twice, or from two processes at once, does no harm. Going back is not offered.

use std::borrow::Cow;

use sqlx::migrate::{MigrateError as SqlxError, Migration, MigrationType, Migrator};
use sqlx::{Connection, PgConnection, SqlSafeStr};

use super::connect::ConnectSettings;
use super::error::DatabaseError;
use super::schema::Schema;

/// The advisory lock of one migrating process: "outbox" in ASCII.
const LOCK: i64 = 0x6f75_7462_6f78;

/// Each migration's number, name and text, oldest first. Released ones are frozen.
const MIGRATIONS: [(i64, &str, &str); 1] = [(
    1,
    "outbox",
    include_str!("../../migrations/0001_outbox.sql"),
)];

/// How the tables in a schema compare with what this program needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaState {
    /// As needed.
    Current,
    /// Not there.
    Missing,
    /// Older: migrate.
    Behind {
        /// The newest migration that was applied.
        applied: i64,
        /// The newest that this program has.
        wanted: i64,
    },
    /// Newer: upgrade this program.
    Ahead {
        /// The newest migration that was applied.
        applied: i64,
        /// The newest that this program has.
        wanted: i64,
    },
}

/// Why the tables were not migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The server can't be reached or refused.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A newer program has migrated already.
    #[error(
        "the outbox in schema {schema} is at migration {applied} and this program knows {wanted}: \
         upgrade this program"
    )]
    Ahead {
        /// The schema, unquoted.
        schema: String,
        /// The newest migration that was applied.
        applied: i64,
        /// The newest that this program has.
        wanted: i64,
    },
    /// A migration that was applied is not the one that this program has.
    #[error(
        "migration {0} of the outbox was applied with another text: use the program that applied it"
    )]
    Changed(i64),
    /// A migration failed; nothing of it was applied.
    #[error("migration {number} of the outbox failed, and nothing of it was applied")]
    Failed {
        /// Which one.
        number: i64,
        /// What the server says.
        #[source]
        source: DatabaseError,
    },
}

/// The newest migration that this program has.
fn wanted() -> i64 {
    MIGRATIONS.last().map_or(0, |(number, ..)| *number)
}

/// Compares the tables with what this program needs. Changes nothing.
///
/// # Errors
/// [`DatabaseError`] if the server can't be reached or refuses.
pub async fn schema_state(
    connection: &mut PgConnection,
    schema: &Schema,
) -> Result<SchemaState, DatabaseError> {
    let history = format!("{}.outbox_migrations", schema.quoted());
    let (present,): (bool,) = sqlx::query_as("select to_regclass($1) is not null")
        .bind(history)
        .fetch_one(&mut *connection)
        .await?;
    if !present {
        return Ok(SchemaState::Missing);
    }
    let sql = schema.sql("select max(version) from {schema}.outbox_migrations where success");
    let (applied,): (Option<i64>,) = sqlx::query_as(sql).fetch_one(connection).await?;
    Ok(compare(applied, wanted()))
}

fn compare(applied: Option<i64>, wanted: i64) -> SchemaState {
    match applied {
        None => SchemaState::Missing,
        Some(applied) if applied < wanted => SchemaState::Behind { applied, wanted },
        Some(applied) if applied > wanted => SchemaState::Ahead { applied, wanted },
        Some(_) => SchemaState::Current,
    }
}

/// Creates the schema and the tables, or brings them up to date, on a connection
/// of its own. Returns what was there before.
///
/// # Errors
/// [`MigrateError`]. Each migration is applied as a whole or not at all.
pub async fn migrate(settings: &ConnectSettings) -> Result<SchemaState, MigrateError> {
    let mut connection = settings.open().await?;
    // Migrating waits for its turn and for locks, and may take its time. Closing
    // the connection gives the lock back, whatever happens.
    sqlx::raw_sql("set statement_timeout = 0; set lock_timeout = 0; set idle_in_transaction_session_timeout = 0")
        .execute(&mut connection)
        .await
        .map_err(DatabaseError::from)?;
    sqlx::query("select pg_advisory_lock($1)")
        .bind(LOCK)
        .execute(&mut connection)
        .await
        .map_err(DatabaseError::from)?;
    let before = apply(&mut connection, &settings.schema).await?;
    connection.close().await.map_err(DatabaseError::from)?;
    Ok(before)
}

async fn apply(
    connection: &mut PgConnection,
    schema: &Schema,
) -> Result<SchemaState, MigrateError> {
    let before = schema_state(connection, schema).await?;
    if let SchemaState::Ahead { applied, wanted } = before {
        return Err(MigrateError::Ahead {
            schema: schema.name().to_owned(),
            applied,
            wanted,
        });
    }
    enter(connection, schema).await?;
    migrator(schema)
        .run_direct(None, connection, false)
        .await
        .map_err(told)?;
    Ok(before)
}

/// Creates the schema if it is missing and makes it the place of all that follows.
async fn enter(connection: &mut PgConnection, schema: &Schema) -> Result<(), DatabaseError> {
    // "if not exists" would ask for the right to create even if it exists.
    let (present,): (bool,) =
        sqlx::query_as("select exists (select from pg_namespace where nspname = $1)")
            .bind(schema.name())
            .fetch_one(&mut *connection)
            .await?;
    if !present {
        sqlx::raw_sql(schema.sql("create schema {schema}"))
            .execute(&mut *connection)
            .await?;
    }
    // Last, so that no temporary table can stand in for one of ours.
    sqlx::raw_sql(schema.sql("set search_path to {schema}, pg_temp"))
        .execute(connection)
        .await?;
    Ok(())
}

fn migrator(schema: &Schema) -> Migrator {
    let migrations = MIGRATIONS.map(|(number, name, sql)| {
        let (name, kind) = (Cow::Borrowed(name), MigrationType::Simple);
        Migration::new(number, name, kind, sql.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.into());
    migrator.dangerous_set_table_name(format!("{}.outbox_migrations", schema.quoted()));
    migrator.set_locking(false);
    migrator
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the driver's list of errors is open, and the rest can't happen with this migrator"
)]
fn told(error: SqlxError) -> MigrateError {
    match error {
        SqlxError::VersionMismatch(number) => MigrateError::Changed(number),
        SqlxError::ExecuteMigration(source, number) => MigrateError::Failed {
            number,
            source: source.into(),
        },
        SqlxError::Execute(source) => MigrateError::Database(source.into()),
        other => MigrateError::Database(sqlx::Error::Migrate(Box::new(other)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_applied_and_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let listed = MIGRATIONS.map(|(number, name, _)| format!("{number:04}_{name}.sql"));
        assert_eq!(files, listed);
    }

    #[test]
    fn a_schema_is_current_behind_ahead_or_missing() {
        assert_eq!(compare(None, 2), SchemaState::Missing);
        assert_eq!(compare(Some(2), 2), SchemaState::Current);
        let (applied, wanted) = (1, 2);
        assert_eq!(compare(Some(1), 2), SchemaState::Behind { applied, wanted });
        let (applied, wanted) = (3, 2);
        assert_eq!(compare(Some(3), 2), SchemaState::Ahead { applied, wanted });
    }
}
