//! What the relay is compared with, each a process of its own.

use anyhow::Result;
use clap::Parser;
use outbox_bench::floor::Args;

fn main() -> Result<()> {
    outbox_bench::floor::run(Args::parse())
}
