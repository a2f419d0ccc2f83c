//! The conformance kit over every built-in sink and the examples, against real servers.
//!
//! `make conformance` runs it, and so does `make test`. Arguments choose sinks by their names. It
//! prints a table for each sink, and at the end one line that adds them up; one check that
//! fails is a failure of the whole.

#![expect(clippy::print_stdout, reason = "its tables are what it is for")]

mod closure;
mod file;
mod kafka;
mod lines;
mod nats;
mod place;
mod redis;
mod s3;
mod table;

use std::process::ExitCode;

use outbox_sinks::conformance::{Report, Summary, check};
use tokio::task::JoinSet;

/// Every sink that is checked, in the order of the tables.
const SINKS: [&str; 7] = [
    "kafka",
    "nats",
    "s3",
    "file",
    "closure",
    "redis-streams",
    "postgres-table",
];

/// Kafka has a lane of its own, since its broker takes longest; the others follow each other in
/// another one. Two processors are enough for both.
const LANES: [&[&str]; 2] = [
    &["kafka"],
    &[
        "nats",
        "s3",
        "file",
        "closure",
        "redis-streams",
        "postgres-table",
    ],
];

async fn report(sink: &'static str) -> Report {
    match sink {
        "kafka" => check(sink, &kafka::Topics::start().await).await,
        "nats" => check(sink, &nats::Streams::start().await).await,
        "s3" => check(sink, &s3::Buckets::start().await).await,
        "file" => check(sink, &file::Files).await,
        "closure" => check(sink, &closure::Journals).await,
        "redis-streams" => check(sink, &redis::Streams::start().await).await,
        "postgres-table" => check(sink, &table::Tables::start().await).await,
        other => panic!("no sink is called {other}"),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let mut wanted = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .peekable();
    let all = wanted.peek().is_none();
    let wanted: Vec<&String> = wanted.collect();
    let chosen = |sink: &&&str| all || wanted.iter().any(|part| sink.contains(part.as_str()));

    // They mostly wait: for outages, deadlines and restarts.
    let mut running = JoinSet::new();
    for lane in LANES {
        let lane: Vec<&'static str> = lane.iter().filter(chosen).copied().collect();
        running.spawn(async move {
            let mut reports = Vec::new();
            for sink in lane {
                reports.push(report(sink).await);
            }
            reports
        });
    }
    let mut reports = running.join_all().await.concat();
    let place = |report: &Report| SINKS.iter().position(|sink| *sink == report.destination());
    reports.sort_by_key(place);
    for report in &reports {
        println!("{report}\n");
    }
    let summary = Summary::of(&reports);
    println!("{summary}");
    if summary.failed > 0 || (all && summary.sinks != SINKS.len()) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
