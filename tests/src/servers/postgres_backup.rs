//! What becomes of a cluster in the hands of those who run it: dumps, copies of its data that are
//! put back later, and `pg_resetwal`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};

use super::postgres::{Postgres, Shutdown, is_root};
use super::postgres_database::Database;
use super::process::{Launch, Process};

const LIMIT: Duration = Duration::from_secs(60);

impl Postgres {
    /// Dumps a database as SQL.
    ///
    /// # Panics
    ///
    /// If `pg_dump` fails, with the end of its log.
    pub async fn dump(&self, database: &Database) -> PathBuf {
        let file = self.folder().join(format!("{}.sql", database.name()));
        let mut args = vec!["--file".into(), file.clone().into()];
        args.extend(["--dbname".into(), database.url().into()]);
        self.tool("pg_dump", args).await;
        file
    }

    /// Makes a database of a dump, in one transaction.
    ///
    /// # Panics
    ///
    /// If `psql` fails, with the end of its log.
    pub async fn restore(&self, dump: &Path) -> Database {
        let database = self.database().await;
        let options = "--no-psqlrc --quiet --single-transaction --set ON_ERROR_STOP=1";
        let mut args: Vec<OsString> = options.split(' ').map(Into::into).collect();
        args.extend(["--file".into(), dump.into()]);
        args.extend(["--dbname".into(), database.url().into()]);
        self.tool("psql", args).await;
        database
    }

    /// Copies the data of a server that is stopped.
    ///
    /// # Panics
    ///
    /// If it runs.
    pub async fn back_up(&self) {
        self.copy("data", "backup").await;
    }

    /// Puts the copy that [`back_up`](Self::back_up) made in the place of the data.
    ///
    /// # Panics
    ///
    /// If the server runs, or there is no copy.
    pub async fn put_back(&self) {
        let data = self.folder().join("data");
        std::fs::remove_dir_all(data).expect("a stopped server's data can be removed");
        self.copy("backup", "data").await;
    }

    /// Runs `pg_resetwal` on the data of a server that is stopped.
    ///
    /// # Panics
    ///
    /// If it fails, with the end of its log.
    pub async fn reset_wal(&self, options: &[&str]) {
        assert!(!self.runs(), "pg_resetwal is for a server that is stopped");
        let mut args = vec!["-D".into(), self.folder().join("data").into()];
        args.extend(options.iter().map(Into::into));
        self.tool("pg_resetwal", args).await;
    }

    /// Stops the server and lets it start again with so many transaction ids left below 2³², after
    /// which they go on in epoch 1.
    ///
    /// # Panics
    ///
    /// If one of the steps fails.
    pub async fn end_epoch_soon(&mut self, left: u32) {
        let mut admin = PgConnection::connect(&self.url())
            .await
            .expect("a server that runs accepts connections");
        // What the next ids would take for the future must not depend on the old ones.
        admin
            .execute("update pg_database set datallowconn = true")
            .await
            .expect("the superuser may open template0");
        drop(admin);
        let options = ["--all", "--freeze", "--quiet", "--maintenance-db"];
        let mut args: Vec<OsString> = options.map(Into::into).into();
        args.push(self.url().into());
        self.tool("vacuumdb", args).await;
        self.stop(Shutdown::Fast).await;
        let next = u32::MAX - left + 1;
        self.reset_wal(&["--next-transaction-id", &next.to_string()])
            .await;
        // Where those transactions' fates are kept: pg_resetwal leaves that to whoever runs it.
        let launch = Launch {
            name: "truncate",
            program: "truncate".into(),
            args: vec!["--size=256K".into(), "data/pg_xact/0FFF".into()],
            folder: self.folder(),
            as_nobody: is_root(),
        };
        Process::run(launch, LIMIT).await;
        self.start_again().await;
    }

    async fn copy(&self, from: &str, to: &str) {
        assert!(!self.runs(), "only a stopped server's data is consistent");
        let launch = Launch {
            name: "cp",
            program: "cp".into(),
            args: vec!["-a".into(), from.into(), to.into()],
            folder: self.folder(),
            as_nobody: is_root(),
        };
        Process::run(launch, LIMIT).await;
    }

    async fn tool(&self, name: &str, args: Vec<OsString>) {
        let launch = Launch {
            name,
            program: self.version().bin().join(name),
            args,
            folder: self.folder(),
            as_nobody: is_root(),
        };
        Process::run(launch, LIMIT).await;
    }
}
