//! The plainest programs that do the relay's work, or a part of it: what there is to reach.
//!
//! - `read` reads all rows and throws them away.
//! - `produce-…` has all messages in memory and sends them.
//! - `relay-…` reads pages and sends what is in them, in the plainest loop that a good
//!   engineer would write: no cursor, no lease, no verdicts, no second thoughts. Only a full
//!   queue holds it up, and all acknowledgements are awaited at the end.
//! - `live-kafka` ships what comes, see [`plain`](crate::live::plain).
//!
//! They send the same bytes to the same partitions as the relay with its defaults, through the
//! same client libraries with the same options. Whoever starts one [talks to it](protocol) by
//! lines.

pub mod kafka;
mod message;
pub mod nats;
pub mod protocol;
mod read;
mod rows;
pub mod s3;

use anyhow::Result;
use clap::{Parser, Subcommand};

pub use rows::SESSIONS;
use rows::Source;

/// The command line of the program `floor`.
#[derive(Debug, Parser)]
#[command(name = "floor")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, Subcommand)]
enum Program {
    /// Reads all rows and throws them away.
    Read,
    /// Sends what is in memory to Kafka.
    ProduceKafka(kafka::Target),
    /// Reads pages and sends them to Kafka.
    RelayKafka(kafka::Target),
    /// Ships what comes to Kafka, until it is killed.
    LiveKafka(kafka::Target),
    /// Sends what is in memory to a NATS stream.
    ProduceNats(nats::Target),
    /// Reads pages and sends them to a NATS stream.
    RelayNats(nats::Target),
    /// Puts what is in memory into a bucket.
    ProduceS3(s3::Target),
    /// Reads pages and puts them into a bucket.
    RelayS3(s3::Target),
}

/// Runs one of the programs to its end, on one thread besides those of the client library.
///
/// # Errors
/// Whatever went wrong: nothing is tried twice.
pub fn run(args: Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let source = args.source;
    runtime.block_on(async {
        match args.program {
            Program::Read => read::run(&source).await,
            Program::ProduceKafka(target) => kafka::produce(&source, &target).await,
            Program::RelayKafka(target) => kafka::relay(&source, &target).await,
            Program::LiveKafka(target) => Box::pin(kafka::live(&source, &target)).await,
            Program::ProduceNats(target) => Box::pin(nats::produce(&source, &target)).await,
            Program::RelayNats(target) => Box::pin(nats::relay(&source, &target)).await,
            Program::ProduceS3(target) => Box::pin(s3::produce(&source, &target)).await,
            Program::RelayS3(target) => Box::pin(s3::relay(&source, &target)).await,
        }
    })
}
