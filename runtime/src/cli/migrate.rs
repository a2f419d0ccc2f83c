//! `sinks migrate`: creates the tables or brings them up to date, and grants roles
//! the least they need.

use std::io::Write;

use clap::Args;
use outbox::{ConnectSettings, Duty, MigrateError, SchemaState, grant};

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
    /// Grant this role what deleting old events needs (`sinks run --role retention`)
    #[arg(long, value_name = "ROLE")]
    retention: Option<String>,
    /// Grant this role what the commands need that look at sinks and order things
    #[arg(long, value_name = "ROLE")]
    operator: Option<String>,
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
        let roles = self.roles();
        if !roles.is_empty() {
            let mut connection = settings.open().await?;
            grant(&mut connection, &settings.schema, &roles)
                .await
                .map_err(|error| Failure::from(error).while_doing("grant rights"))?;
        }
        for (duty, role) in roles {
            writeln!(out, "role {role} may {}", what(duty))?;
        }
        Ok(())
    }

    fn roles(&self) -> Vec<(Duty, &str)> {
        let roles = [
            (Duty::Publisher, &self.publisher),
            (Duty::Worker, &self.worker),
            (Duty::Retention, &self.retention),
            (Duty::Operator, &self.operator),
        ];
        let roles = roles
            .into_iter()
            .filter_map(|(duty, role)| Some((duty, role.as_deref()?)));
        roles.collect()
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
        for (duty, role) in self.roles() {
            write!(out, "{}", duty.grants(schema, role))?;
        }
        Ok(())
    }
}

const fn what(duty: Duty) -> &'static str {
    match duty {
        Duty::Publisher => "publish",
        Duty::Worker => "run a worker",
        Duty::Retention => "delete old events",
        Duty::Operator => "operate the sinks",
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
        for (duty, role) in [
            (Duty::Publisher, "app"),
            (Duty::Worker, "sinks"),
            (Duty::Retention, "sinks"),
            (Duty::Operator, "ops"),
        ] {
            let grants = duty.grants(&schema, role);
            assert!(guide.contains(&grants), "{grants}");
        }
    }
}
