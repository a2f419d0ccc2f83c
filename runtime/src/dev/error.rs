//! What can keep `sinks dev` from running, each as a sentence that says what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why the development server or the run on it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevError {
    /// There are no usable Postgres server programs on this machine.
    #[error("{0}")]
    NoPostgres(String),
    /// Another `sinks dev` works in the folder.
    #[error("{}", in_use(.dir, *.pid))]
    InUse {
        /// The folder.
        dir: PathBuf,
        /// The other process, if it has written itself down already.
        pid: Option<u32>,
    },
    /// The folder holds files that were not made by `sinks dev`.
    #[error(
        "{} holds files that `sinks dev` did not make, so it is left alone: choose an empty or new folder with --dir",
        .0.display()
    )]
    NotOurs(PathBuf),
    /// Something that is not an output of `sinks dev` is where the output should go.
    #[error(
        "{} exists and is not an output of an earlier run, so it is left alone: choose another file with --output",
        .0.display()
    )]
    Output(PathBuf),
    /// Files could not be read or written.
    #[error("can't {action} {}", .path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Postgres could not be set up, started or stopped.
    #[error("{0}")]
    Server(String),
    /// The database on the development server did not do what was asked of it.
    #[error("can't {action} on the development server")]
    Database {
        /// What was tried, as a verb.
        action: &'static str,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The worker ended by itself.
    #[error("the worker stopped before the run was over: its log says why")]
    Worker,
    /// A stop was asked for while the server was being set up. Nothing is left running.
    #[error("stopped")]
    Stopped,
}

impl DevError {
    /// For `map_err` on operations on files.
    pub(super) fn file(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    /// For `map_err` on operations on the database.
    pub(super) fn database<E>(action: &'static str) -> impl FnOnce(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        move |source| Self::Database {
            action,
            source: Box::new(source),
        }
    }
}

fn in_use(dir: &Path, pid: Option<u32>) -> String {
    let dir = dir.display();
    let holder = pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    );
    format!(
        "`sinks dev` is already running in {dir} ({holder}): stop it, or choose another folder with --dir"
    )
}
