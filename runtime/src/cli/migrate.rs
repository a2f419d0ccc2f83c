//! `sinks migrate`: creates the tables or brings them up to date, and grants roles
//! the least they need.

use std::io::Write;

use clap::Args;
use outbox::{ConnectSettings, MigrateError, SchemaState, grant, publisher_grants, worker_grants};

use super::exit::{Failure, Status};
use super::source::Source;
use super::{database, logs};

/// Create the tables, or bring them up to date; needs only [database]
#[derive(Args, Debug)]
pub(super) struct Migrate {
    /// Grant this role what publishing needs
    #[arg(long, value_name = "ROLE")]
    publisher: Option<String>,
    /// Grant this role what running a worker needs
    #[arg(long, value_name = "ROLE")]
    worker: Option<String>,
    /// Change nothing: say what would be done, and show the grants as SQL
    #[arg(long)]
    dry_run: bool,
}

impl Migrate {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let config = source.database_config()?;
        logs::start(&config.log);
        let settings = ConnectSettings {
            application_name: "sinks migrate".to_owned(),
            ..config.database
        };
        if self.dry_run {
            return self.show(&settings, out).await;
        }
        let before = outbox::migrate(&settings).await?;
        let schema = settings.schema.name();
        match before {
            SchemaState::Current => writeln!(out, "the outbox in schema {schema} is up to date")?,
            SchemaState::Missing => writeln!(out, "created the outbox in schema {schema}")?,
            SchemaState::Behind { applied, wanted } => writeln!(
                out,
                "migrated the outbox in schema {schema} from {applied} to {wanted}"
            )?,
            // Migrating refuses it.
            SchemaState::Ahead { .. } => {}
        }
        let (publisher, worker) = (self.publisher.as_deref(), self.worker.as_deref());
        if publisher.is_some() || worker.is_some() {
            let mut connection = settings.open().await?;
            grant(&mut connection, &settings.schema, publisher, worker)
                .await
                .map_err(|error| Failure::from(error).while_doing("grant rights"))?;
        }
        for (role, what) in [(publisher, "publish"), (worker, "run a worker")] {
            if let Some(role) = role {
                writeln!(out, "role {role} may {what}")?;
            }
        }
        Ok(())
    }

    async fn show(&self, settings: &ConnectSettings, out: &mut impl Write) -> Result<(), Failure> {
        let mut connection = settings.open().await?;
        let schema = &settings.schema;
        let state = outbox::schema_state(&mut connection, schema).await?;
        match database::advice(state, schema) {
            None => writeln!(
                out,
                "-- the outbox in schema {} is up to date",
                schema.name()
            )?,
            Some(advice) => writeln!(out, "-- {advice}")?,
        }
        if let Some(role) = &self.publisher {
            write!(out, "{}", publisher_grants(schema, role))?;
        }
        if let Some(role) = &self.worker {
            write!(out, "{}", worker_grants(schema, role))?;
        }
        Ok(())
    }
}

impl From<MigrateError> for Failure {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Database(error) => error.into(),
            MigrateError::Ahead { .. } | MigrateError::Changed(_) => {
                Self::new(Status::Schema, error.to_string())
            }
            MigrateError::Failed { .. } => anyhow::Error::new(error).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::Schema;

    #[test]
    fn the_guide_shows_the_grants_as_they_are() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operate.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        let schema = Schema::default();
        for grants in [
            publisher_grants(&schema, "app"),
            worker_grants(&schema, "sinks"),
        ] {
            assert!(guide.contains(&grants), "{grants}");
        }
    }
}
