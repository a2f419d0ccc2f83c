//! The relay itself: the binary `sinks`, as an operator runs it.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use outbox_tests::servers::Database;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::program;

/// What a worker's sessions are called in `pg_stat_activity`.
pub const SESSIONS: &str = "sinks run";

/// A configuration for one database, in a folder of its own.
#[derive(Debug)]
pub struct Setup {
    folder: TempDir,
    url: String,
}

/// A worker that runs. It is killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    log: std::path::PathBuf,
}

impl Setup {
    /// Writes `sinks.toml` with these tables, besides the one of the database. The roles are
    /// those of a sink alone: pruning the backlog is not what is measured.
    ///
    /// # Errors
    /// If no folder can be made.
    pub fn new(database: &Database, sinks: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a folder for the configuration")?;
        let base = "[database]\nurl = \"${DATABASE_URL}\"\n[worker]\nroles = [\"sinks\"]\n";
        std::fs::write(folder.path().join("sinks.toml"), format!("{base}{sinks}"))?;
        let url = database.url();
        Ok(Self { folder, url })
    }

    /// The folder: relative paths in the configuration lie in it.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Starts the worker.
    ///
    /// # Errors
    /// If the program can't be started.
    pub fn run(&self) -> Result<Worker> {
        let log = self.folder.path().join("sinks.log");
        let output = std::fs::File::create(&log)?;
        let child = self
            .command(&["run"])?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .context("start sinks run")?;
        Ok(Worker { child, log })
    }

    /// Runs a command of `sinks` to its end.
    ///
    /// # Errors
    /// If it fails, with what it said.
    pub async fn finish(&self, args: &[&str]) -> Result<()> {
        let output = self.command(args)?.output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "sinks {}: {said}", args.join(" "));
        Ok(())
    }

    fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(program::sinks()?);
        command
            .args(args)
            .current_dir(self.folder.path())
            .env_remove("SINKS_CONFIG")
            .env("DATABASE_URL", &self.url)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .kill_on_drop(true);
        Ok(command)
    }
}

impl Worker {
    /// Its process id.
    ///
    /// # Errors
    /// If it has ended, with its log.
    pub fn pid(&mut self) -> Result<u32> {
        let ended = self.child.try_wait()?;
        if let Some(status) = ended {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            anyhow::bail!("the worker has ended: {status}\n{log}");
        }
        self.child.id().context("a worker that runs has a pid")
    }

    /// Waits for an end that nobody asked for, and tells about it.
    pub async fn ended(&mut self) -> anyhow::Error {
        let status = self.child.wait().await;
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        anyhow::anyhow!("the worker has ended: {status:?}\n{log}")
    }

    /// Asks it to stop, and waits for its end.
    ///
    /// # Errors
    /// If it fails.
    pub async fn stop(mut self) -> Result<()> {
        let pid = self.pid()?;
        let pid = i32::try_from(pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        let pid = pid.context("a worker that runs has a pid")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = self.child.wait().await?;
        ensure!(status.success(), "the worker failed: {status}");
        Ok(())
    }
}
