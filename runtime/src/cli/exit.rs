//! How the process ends: a documented exit status for each kind of failure, and one
//! sentence on standard error.

use std::fmt;
use std::io;
use std::process::ExitCode;

use outbox::{DatabaseError, DatabaseErrorKind, OperateError};

use crate::config::Problems;
use crate::store::StoreError;

/// The exit statuses, as `--help` shows them.
pub(super) const HELP: &str = "\
Exit status:
  0  done
  1  an unexpected failure
  2  wrong usage or configuration, wrong input of publish, or nothing for dev to start with
  3  the database can't be reached or refuses us
  4  the tables are missing, or of another version
  5  a destination failed its check
  6  dev: what was delivered is not what was published
  7  refused: a running worker holds what the command is about";

/// Why the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Status {
    /// Something that has no status of its own.
    Unexpected = 1,
    /// The command line, the configuration or the input of `publish` is wrong, or `dev`
    /// has nothing to start with.
    Configuration = 2,
    /// The database can't be reached or refuses us.
    Database = 3,
    /// The tables are missing, or of another version.
    Schema = 4,
    /// A destination failed its check.
    Destination = 5,
    /// `dev` delivered something else than was published.
    #[cfg_attr(
        not(feature = "file"),
        expect(dead_code, reason = "without files there is no `dev`")
    )]
    Mismatch = 6,
    /// A running worker holds what the command is about.
    Held = 7,
}

/// A failed command: its exit status, and what to say.
#[derive(Debug)]
pub(super) struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    pub(super) fn new(status: Status, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// The failure with what was being attempted in front.
    pub(super) fn while_doing(self, doing: impl fmt::Display) -> Self {
        Self {
            message: format!("{doing}: {}", self.message),
            ..self
        }
    }

    pub(super) const fn status(&self) -> Status {
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::new(Status::Configuration, problems.to_string())
    }
}

impl From<DatabaseError> for Failure {
    fn from(error: DatabaseError) -> Self {
        let status = match error.kind() {
            DatabaseErrorKind::Unreachable | DatabaseErrorKind::Denied => Status::Database,
            DatabaseErrorKind::NotMigrated => Status::Schema,
            DatabaseErrorKind::Misconfigured => Status::Configuration,
            DatabaseErrorKind::Other => Status::Unexpected,
        };
        Self::new(status, error.to_string())
    }
}

impl From<OperateError> for Failure {
    fn from(error: OperateError) -> Self {
        let status = match error {
            OperateError::Database(error) => return error.into(),
            OperateError::NoCursor(_) | OperateError::BeyondHorizon { .. } => Status::Configuration,
            OperateError::Held(_) => Status::Held,
        };
        Self::new(status, error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error.into_inner().downcast::<DatabaseError>() {
            Ok(error) => (*error).into(),
            Err(error) => Self::new(Status::Unexpected, error.to_string()),
        }
    }
}

/// For what goes wrong with standard input and output, and with files.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(Status::Unexpected, error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Status::Unexpected, format!("{error:#}"))
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}
