//! The plainest live loop, as a process of its own.

use anyhow::Result;
use clap::Parser;
use outbox_bench::live::plain;

/// Ships the outbox to a topic, from its beginning, until it is killed
#[derive(Debug, Parser)]
struct Arguments {
    /// The database's URL
    database: String,
    /// The brokers, as librdkafka wants them
    brokers: String,
    /// The topic
    topic: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let (database, brokers) = (&arguments.database, &arguments.brokers);
    Box::pin(plain::run(database, brokers, &arguments.topic)).await
}
