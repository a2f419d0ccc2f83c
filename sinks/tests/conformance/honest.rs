//! Sinks that keep every rule.

use std::sync::Arc;

use outbox_sinks::conformance::{self, Check, Outcome, Proxy, Repetitions, Rule, Summary};

use super::destination::LedgerDestination;
use super::faults::Fault;
use super::ledger::Ledger;
use super::report;

#[tokio::test]
async fn an_honest_sink_passes_every_check() {
    let report = report(Fault::Nothing, false, Repetitions::Kept).await;
    report.assert();
    // What stores a position is checked in `positions`.
    let lacking = |check: &&Check| {
        let lacking = matches!(check.outcome(), Outcome::NotApplicable(_));
        lacking && check.rule() != Rule::Progress
    };
    let lacking: Vec<_> = report.checks().iter().filter(lacking).collect();
    assert!(lacking.is_empty(), "{report}");
    let sum = Summary::of([&report]);
    assert_eq!((sum.sinks, sum.failed), (1, 0));
    assert_eq!(sum.checks, report.checks().len() - 6);
}

#[tokio::test]
async fn a_client_that_is_back_after_two_seconds_passes() {
    let report = report(Fault::TakesItsTimeToReconnect, false, Repetitions::Kept).await;
    report.assert();
}

#[tokio::test]
async fn a_replay_that_arrives_twice_passes_where_repetitions_are_kept() {
    let report = report(Fault::SendsReplaysTwice, false, Repetitions::Kept).await;
    report.assert();
}

#[tokio::test]
async fn an_honest_sink_passes_where_repetitions_are_dropped() {
    let report = report(Fault::Nothing, true, Repetitions::Dropped).await;
    report.assert();
}

/// Where copies become one, a replay is no copy either.
#[tokio::test]
async fn an_honest_sink_passes_where_repetitions_are_merged() {
    let report = report(Fault::DropsReplays, true, Repetitions::Merged).await;
    report.assert();
}

#[tokio::test]
async fn an_honest_sink_passes_behind_a_proxy_of_the_authors_own() {
    let ledger = Ledger::start(false).await;
    let proxy = Proxy::start(ledger.addr).await;
    let destination = LedgerDestination {
        ledger,
        fault: Fault::Nothing,
        proxy: Some(proxy),
        repetitions: Repetitions::Kept,
        shared: Arc::default(),
    };
    conformance::check("ledger", &destination).await.assert();
    let proxy = destination.proxy.expect("the proxy is still there");
    assert!(proxy.accepted() > 20, "{}", proxy.accepted());
}
