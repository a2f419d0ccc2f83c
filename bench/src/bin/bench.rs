//! `make bench`: measures, prints tables, and ends with a line a target.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark talks to people"
)]

use tokio::time::Instant;

use anyhow::Result;
use clap::Parser;
use outbox_bench::lab::Lab;
use outbox_bench::machine;
use outbox_bench::section::Section;
use outbox_bench::target::Target;

/// Measures the relay against the parts it is made of.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Args {
    /// What to measure; everything if none is named.
    #[arg(value_enum)]
    sections: Vec<Section>,
    /// How often each comparison is repeated. The figures are medians.
    #[arg(long, env = "BENCH_ROUNDS", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let started = Instant::now();
    let sections = match args.sections.as_slice() {
        [] => Section::ALL.to_vec(),
        some => some.to_vec(),
    };
    println!("{}", machine::describe().await);
    let lab = Lab::start().await;
    let mut targets = Vec::new();
    for section in sections {
        let begun = Instant::now();
        eprintln!("{section}: {} rounds", args.rounds);
        targets.extend(section.run(&lab, args.rounds).await?);
        eprintln!("{section}: took {:.0} s", begun.elapsed().as_secs_f64());
    }
    summarise(&targets);
    eprintln!("all of it took {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// A line a target. Falling short is a finding, not a failure of the benchmark.
fn summarise(targets: &[Target]) {
    println!();
    for target in targets {
        println!("{target}");
    }
}
