//! The servers, as they are in the field: durable, with their defaults, warm.

use anyhow::Result;
use outbox_tests::servers::{Database, Kafka, Nats, Postgres, PostgresVersion, S3};
use sqlx::PgConnection;

use crate::worker::Setup;
use crate::workload::{Backlog, Workload};

/// The servers of one run.
#[derive(Debug)]
pub struct Lab {
    /// One Postgres for everybody. It flushes its commits, and writes the log that logical
    /// replication needs.
    pub postgres: Postgres,
}

impl Lab {
    /// Starts Postgres. The other servers are started by those who need them.
    pub async fn start() -> Self {
        let postgres = Postgres::options(PostgresVersion::Oldest)
            .set("fsync", "on")
            .set("wal_level", "logical")
            .set("shared_buffers", "1GB")
            .set("max_wal_size", "8GB")
            .set("checkpoint_timeout", "1h")
            .set("max_replication_slots", "20")
            // One that is stopped while a table is filled must not give its client up.
            .set("wal_sender_timeout", "0")
            // Dead rows of cursors are swept as ever, but no sweep of a large table falls
            // into one contender's turn.
            .set("autovacuum_naptime", "10min")
            .start()
            .await;
        Self { postgres }
    }

    /// A broker whose virtual machine compiles as it does in the field.
    pub async fn kafka(&self) -> Kafka {
        Kafka::options().warm().start().await
    }

    /// A NATS server with JetStream on files.
    pub async fn nats(&self) -> Nats {
        Nats::start().await
    }

    /// An S3 server.
    pub async fn s3(&self) -> S3 {
        S3::start().await
    }

    /// A database with the tables of the outbox.
    ///
    /// # Errors
    /// If `sinks migrate` fails.
    pub async fn database(&self) -> Result<Database> {
        let database = self.postgres.database().await;
        Setup::new(&database, "")?.finish(&["migrate"]).await?;
        Ok(database)
    }

    /// A database whose outbox holds this workload.
    ///
    /// # Errors
    /// If it can't be filled.
    pub async fn backlog(&self, workload: &Workload) -> Result<Backlog> {
        let database = self.database().await?;
        workload.fill(&mut database.connect().await).await?;
        Backlog::measure(database, workload).await
    }
}

/// The processes that serve the sessions of `application` in this database.
///
/// # Errors
/// If the database does not answer.
pub async fn backends(connection: &mut PgConnection, application: &str) -> Result<Vec<u32>> {
    let sql = "select pid from pg_stat_activity
               where datname = current_database() and application_name = $1";
    let pids: Vec<i32> = sqlx::query_scalar(sql)
        .bind(application)
        .fetch_all(connection)
        .await?;
    Ok(pids
        .into_iter()
        .filter_map(|pid| u32::try_from(pid).ok())
        .collect())
}
