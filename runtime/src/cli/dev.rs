//! `sinks dev`: a private Postgres, sample events and a file, to see it all at work.

use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::exit::{Failure, Status};
use super::logs;
use super::signals::Signals;
use crate::config::{Environment, Log};
use crate::dev::{self, DevError, DevOptions, Lookup};

/// Try it out: a private Postgres, sample events, and a file they are delivered to
#[derive(Args, Debug)]
pub(super) struct Dev {
    /// Stop after this time, such as 20s; by default at Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Events published a second
    #[arg(long, value_name = "EVENTS", default_value_t = DevOptions::DEFAULT_RATE)]
    rate: NonZeroU32,
    /// The folder for the server and everything else
    #[arg(long, value_name = "FOLDER", default_value = DevOptions::DEFAULT_DIR)]
    dir: PathBuf,
    /// The file the events are delivered to; by default events.ndjson in the folder
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Dev {
    pub(super) async fn run(self, out: &mut impl Write) -> Result<(), Failure> {
        logs::start(&Log {
            filter: "warn".to_owned(),
            ..Log::default()
        });
        let signals = Signals::install()?;
        let stop = CancellationToken::new();
        let environment = Environment::process();
        let options = DevOptions {
            dir: self.dir,
            output: self.output,
            duration: self.duration,
            rate: self.rate,
            lookup: Lookup {
                named: environment.get("SINKS_PG_BIN").ok().map(PathBuf::from),
                path: environment.get("PATH").ok().map(Into::into),
            },
        };
        let summary = Box::pin(signals.guard(&stop, dev::run(&options, &stop))).await?;
        for problem in &summary.problems {
            writeln!(out, "{problem}")?;
        }
        writeln!(out, "{summary}")?;
        if summary.problems.is_empty() {
            Ok(())
        } else {
            let message = "what was delivered is not what was published";
            Err(Failure::new(Status::Mismatch, message))
        }
    }
}

impl From<DevError> for Failure {
    fn from(error: DevError) -> Self {
        let status = match error {
            DevError::NoPostgres(_)
            | DevError::InUse { .. }
            | DevError::NotOurs(_)
            | DevError::Output(_) => Status::Configuration,
            DevError::Database { .. } => Status::Database,
            DevError::File { .. } | DevError::Server(_) | DevError::Worker | DevError::Stopped => {
                Status::Unexpected
            }
        };
        Self::new(status, format!("{:#}", anyhow::Error::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_can_change_is_told_apart_from_what_went_wrong() {
        let database = DevError::Database {
            action: "connect",
            source: "refused".into(),
        };
        for (error, status) in [
            (DevError::NoPostgres(String::new()), Status::Configuration),
            (DevError::NotOurs(PathBuf::new()), Status::Configuration),
            (DevError::Output(PathBuf::new()), Status::Configuration),
            (database, Status::Database),
            (DevError::Worker, Status::Unexpected),
        ] {
            assert_eq!(Failure::from(error).status(), status);
        }
    }
}
