//! `sinks dead-letters`: what a destination would not take, and what becomes of it.

mod list;
mod order;
mod select;
mod show;

use std::io::Write;

use clap::{Args, Subcommand};

use super::exit::Failure;
use super::source::Source;

/// List, show, replay or discard what destinations would not take
#[derive(Args, Debug)]
pub(super) struct DeadLetters {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Show(show::Show),
    Replay(order::Replay),
    Discard(order::Discard),
}

impl DeadLetters {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        match &self.command {
            Command::List(list) => list.run(source, out).await,
            Command::Show(show) => show.run(source, out).await,
            Command::Replay(replay) => replay.run(source, out).await,
            Command::Discard(discard) => discard.run(source, out).await,
        }
    }
}
