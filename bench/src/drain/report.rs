//! The table of a section, and what it says about the targets.

use super::contender::Contender::{self, DebeziumShipped, DebeziumTuned, Ours, Relay};
use super::figures::Figures;
use super::ladder::{Plan, Results};
use crate::stats::{Ratio, median};
use crate::target::Target;

/// Besides the batches that are configured.
const RSS_BYTES: u64 = 64 << 20;

/// What a section should reach.
pub(super) struct Goals {
    /// Whom ours is held against.
    pub(super) against: Contender,
    /// The share of its events a second.
    pub(super) least_ratio: f64,
    /// What the sink's batches may hold.
    pub(super) batch_bytes: u64,
}

/// Prints the table; gives the targets.
pub(super) fn print(plan: &Plan<'_>, results: &[Results], goals: &Goals) -> Vec<Target> {
    println!("\n{} ({} rounds, medians)", plan.section, plan.rounds);
    println!(
        "{:<8}{:<18}{:>10}{:>8}{:>24}{:>11}{:>11}{:>9}{:>6}",
        "size", "who", "events/s", "MB/s", "ours / this", "CPU s/M", "backends", "RSS MiB", "twice"
    );
    let mut targets = Vec::new();
    for (workload, results) in plan.workloads.iter().zip(results) {
        for contender in results.contenders() {
            println!("{:<8}{}", workload.name, row(results, contender));
        }
        let name = |what: &str| format!("{} {} {what}", plan.section, workload.name);
        targets.extend(speed(results, goals, &name));
        if workload.bytes <= 1_024 {
            targets.extend(cpu(plan, results, &name));
        }
        let rss = results.by_round(Ours, |figures| mib(figures.peak_rss));
        let most = mib(RSS_BYTES + goals.batch_bytes);
        targets.push(Target::at_most(name("peak RSS in MiB"), median(rss), most));
    }
    targets
}

fn row(results: &Results, contender: Contender) -> String {
    let middle = |figure: fn(&Figures) -> f64| median(results.by_round(contender, figure));
    let rate = middle(Figures::rate);
    let ratio = ratio(results, Ours, contender, Figures::rate);
    let ratio = ratio.map_or_else(String::new, |ratio| ratio.to_string());
    format!(
        "{:<18}{rate:>10.0}{:>8.1}{ratio:>24}{:>11.2}{:>11.2}{:>9.0}{:>6.0}",
        contender.name(),
        rate * results.bytes_an_event / 1e6,
        middle(Figures::cpu_a_million),
        middle(Figures::backends_a_million),
        middle(|figures| mib(figures.peak_rss)),
        results
            .by_round(contender, |figures| figures.duplicates as f64)
            .iter()
            .sum::<f64>(),
    )
}

/// How ours does against another in each round.
fn ratio(
    results: &Results,
    ours: Contender,
    other: Contender,
    figure: fn(&Figures) -> f64,
) -> Option<Ratio> {
    let ours = results.by_round(ours, figure);
    let other = results.by_round(other, figure);
    Ratio::of(ours.iter().zip(&other).map(|(ours, other)| ours / other))
}

fn speed(results: &Results, goals: &Goals, name: &impl Fn(&str) -> String) -> Vec<Target> {
    let mut targets = Vec::new();
    if let Some(found) = ratio(results, Ours, goals.against, Figures::rate) {
        let what = format!("events/s against {}", goals.against.name());
        targets.push(at_least(name(&what), &found, goals.least_ratio));
    }
    if let Some(better) = better_debezium(results)
        && let Some(found) = ratio(results, Ours, better, Figures::rate)
    {
        let what = format!("events/s against {}", better.name());
        targets.push(at_least(name(&what), &found, 5.0));
    }
    targets
}

fn cpu(plan: &Plan<'_>, results: &Results, name: &impl Fn(&str) -> String) -> Vec<Target> {
    let mut targets = Vec::new();
    if plan.section == "drain-kafka"
        && let Some(found) = ratio(results, Ours, Relay, Figures::cpu_a_million)
    {
        targets.push(at_most(name("CPU against L3 both"), &found, 1.3));
    }
    if let Some(better) = better_debezium(results)
        && let Some(found) = ratio(results, Ours, better, Figures::cpu_a_million)
    {
        let what = format!("CPU against {}", better.name());
        targets.push(at_most(name(&what), &found, 0.2));
    }
    targets
}

/// The quicker of Debezium's two configurations, if it took part.
fn better_debezium(results: &Results) -> Option<Contender> {
    let rate = |contender| median(results.by_round(contender, Figures::rate));
    let contenders = results.contenders();
    contenders
        .filter(|contender| matches!(contender, DebeziumShipped | DebeziumTuned))
        .max_by(|one, other| rate(*one).total_cmp(&rate(*other)))
}

fn at_least(name: String, ratio: &Ratio, least: f64) -> Target {
    Target::at_least(name, ratio.median(), least).note(spread(ratio))
}

fn at_most(name: String, ratio: &Ratio, most: f64) -> Target {
    Target::at_most(name, ratio.median(), most).note(spread(ratio))
}

fn spread(ratio: &Ratio) -> String {
    let (least, greatest) = ratio.range();
    format!("{least:.2} to {greatest:.2}")
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
