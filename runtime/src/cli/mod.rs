//! The command line of `sinks`, and of any binary with sinks of its own.
//!
//! One file a command. Results go to standard output, everything else to standard
//! error. How the process ends is in `exit`.

mod adopt;
mod by;
mod check;
mod config;
mod database;
mod dead_letters;
#[cfg(feature = "file")]
mod dev;
mod exit;
mod forget;
mod init;
mod known;
mod logs;
mod migrate;
mod moment;
mod obeyed;
mod pause;
mod prune;
mod publish;
mod results;
mod run;
mod seek;
mod signals;
mod source;
mod status;
mod table;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::Registry;
use exit::Failure;
use results::Results;
use source::Source;

/// Ships committed events from the outbox table of a Postgres to where they are needed
#[derive(Debug, Parser)]
#[command(name = "sinks", version, after_help = exit::HELP, max_term_width = 100)]
struct Cli {
    /// The configuration file
    #[arg(
        short,
        long,
        global = true,
        value_name = "FILE",
        env = "SINKS_CONFIG",
        default_value = "sinks.toml"
    )]
    config: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    #[cfg(feature = "file")]
    Dev(dev::Dev),
    Init(init::Init),
    Migrate(migrate::Migrate),
    Check(check::Check),
    Config(config::ConfigFile),
    Publish(publish::Publish),
    Status(status::ShowStatus),
    DeadLetters(dead_letters::DeadLetters),
    Pause(pause::PauseSink),
    Resume(pause::ResumeSink),
    Seek(seek::SeekSink),
    Forget(forget::ForgetSink),
    Prune(prune::Prune),
    Adopt(adopt::Adopt),
}

/// The whole program: reads the command line, runs the command, reports a failure.
///
/// A binary with sinks of its own calls it with a [`Registry`] that knows them.
#[must_use]
pub fn main(registry: Registry) -> ExitCode {
    // Prints help, version and usage errors, and ends the process with 0 or 2.
    let cli = Cli::parse();
    let source = Source {
        path: cli.config,
        registry,
    };
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::from)
        .and_then(|runtime| {
            let result = runtime.block_on(cli.command.run(&source));
            // Standard input is read by a thread that nothing can interrupt.
            runtime.shutdown_background();
            result
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If even that can't be written, the exit status still tells.
            drop(writeln!(io::stderr(), "error: {failure}"));
            failure.status().into()
        }
    }
}

impl Command {
    async fn run(self, source: &Source) -> Result<(), Failure> {
        let out = &mut Results(io::stdout());
        let result = match self {
            Self::Run(command) => Box::pin(run::run(source, command)).await,
            #[cfg(feature = "file")]
            Self::Dev(dev) => Box::pin(dev.run(out)).await,
            Self::Init(init) => init.run(source, out),
            Self::Migrate(migrate) => Box::pin(migrate.run(source, out)).await,
            Self::Check(check) => Box::pin(check.run(source, out)).await,
            Self::Config(config) => config.run(source, out),
            Self::Publish(publish) => Box::pin(publish.run(source, out)).await,
            Self::Status(status) => Box::pin(status.run(source, out)).await,
            Self::DeadLetters(command) => Box::pin(command.run(source, out)).await,
            Self::Pause(pause) => Box::pin(pause.run(source, out)).await,
            Self::Resume(resume) => Box::pin(resume.run(source, out)).await,
            Self::Seek(seek) => Box::pin(seek.run(source, out)).await,
            Self::Forget(forget) => Box::pin(forget.run(source, out)).await,
            Self::Prune(prune) => Box::pin(prune.run(source, out)).await,
            Self::Adopt(adopt) => Box::pin(adopt.run(source, out)).await,
        };
        result.and_then(|()| Ok(out.flush()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_lists_exactly_the_commands_there_are() {
        let command = Cli::command();
        let names: Vec<_> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        let mut expected = vec![
            "run",
            "init",
            "migrate",
            "check",
            "config",
            "publish",
            "status",
            "dead-letters",
            "pause",
            "resume",
            "seek",
            "forget",
            "prune",
            "adopt",
        ];
        if cfg!(feature = "file") {
            expected.insert(1, "dev");
        }
        assert_eq!(names, expected);
        for command in command.get_subcommands() {
            assert!(
                command.get_about().is_some(),
                "{} says what it does",
                command.get_name()
            );
        }
    }
}
