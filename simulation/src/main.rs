//! `simulation`: runs seeds and prints what came of them.

use std::process::ExitCode;

use clap::Parser;

/// Runs the real loop over a simulated world, seed by seed.
#[derive(Debug, Parser)]
struct Options {
    /// How many seeds to run.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// Runs this seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many run at the same time; as many as there are cores if it is not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Stops once so many seeds have failed.
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// Shows a failure as it is, without looking for the fewest faults that show it.
    #[arg(long)]
    whole: bool,
    /// Prints what the seeds have seen.
    #[arg(long)]
    counts: bool,
}

#[expect(clippy::print_stdout, reason = "what it prints is what it is for")]
fn main() -> ExitCode {
    let options = Options::parse();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (first, seeds) = match options.seed {
        Some(seed) => (seed, 1),
        None => (options.from, options.seeds),
    };
    let summary = simulation::simulate(&simulation::Seeds {
        first,
        seeds,
        threads: options.threads.unwrap_or(cores),
        failures: options.failures,
        shrinks: !options.whole,
    });
    for failure in &summary.failures {
        println!("{failure}\n");
    }
    if options.counts {
        for (what, count) in &summary.counts {
            println!("{count:>10} {what}");
        }
    }
    println!("{summary}");
    match summary.failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
