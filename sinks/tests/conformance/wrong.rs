//! Sinks that break one rule each. Several are checked at once: they mostly wait.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use outbox_sinks::conformance::{Repetitions, Rule};

use super::faults::Fault;
use super::report;

/// Each of these sinks breaks exactly these rules.
async fn break_exactly(wrong: &[(Fault, &[Rule])]) {
    let reports = wrong.iter().map(|(fault, _)| {
        let drops = *fault == Fault::DropsReplays;
        let repetitions = if drops {
            Repetitions::Dropped
        } else {
            Repetitions::Kept
        };
        report(*fault, repetitions)
    });
    let reports = join_all(reports).await;
    for ((fault, rules), report) in wrong.iter().zip(reports) {
        let expected: BTreeSet<Rule> = rules.iter().copied().collect();
        assert_eq!(report.broken_rules(), expected, "{fault:?}\n{report}");
    }
}

#[tokio::test]
async fn sinks_that_acknowledge_too_early_are_found() {
    break_exactly(&[
        (Fault::AcknowledgesBeforeItIsDurable, &[Rule::Durability]),
        (Fault::AcknowledgesWithoutSending, &[Rule::Durability]),
        (Fault::GivesTooFewVerdicts, &[Rule::Verdicts]),
    ])
    .await;
}

#[tokio::test]
async fn sinks_that_reorder_are_found() {
    break_exactly(&[
        (Fault::ReordersAKey, &[Rule::Order]),
        (Fault::ReordersOnRetry, &[Rule::Order]),
        (Fault::FollowsARefusedEvent, &[Rule::Order]),
    ])
    .await;
}

#[tokio::test]
async fn sinks_that_blame_innocents_are_found() {
    break_exactly(&[
        (Fault::BlamesTheWholeBatch, &[Rule::Blame]),
        (Fault::PanicsOnAnOddEvent, &[Rule::Input]),
        (Fault::RewritesThePayload, &[Rule::Payload]),
    ])
    .await;
}

#[tokio::test]
async fn sinks_that_take_an_outage_for_something_else_are_found() {
    break_exactly(&[
        (Fault::CallsAnOutageUndeliverable, &[Rule::Outage]),
        (Fault::CallsAnOutageFailed, &[Rule::Outage]),
        (Fault::CallsAnOutageMisconfigured, &[Rule::Outage]),
    ])
    .await;
}

#[tokio::test]
async fn sinks_that_try_again_on_their_own_are_found() {
    break_exactly(&[
        (Fault::ResendsAfterALostAnswer, &[Rule::Retries]),
        (Fault::LoopsUntilItWorks, &[Rule::Retries, Rule::Deadline]),
        (Fault::SendsLaterInTheBackground, &[Rule::Background]),
    ])
    .await;
}

#[tokio::test]
async fn sinks_that_wait_for_ever_are_found() {
    break_exactly(&[
        (Fault::HasNoDeadline, &[Rule::Deadline]),
        (Fault::HangsInClose, &[Rule::Close]),
        (Fault::DropsReplays, &[Rule::Replays]),
    ])
    .await;
}

#[tokio::test]
async fn sinks_that_tell_operators_too_much_or_too_little_are_found() {
    break_exactly(&[
        (Fault::LeaksThePassword, &[Rule::Secrets]),
        (Fault::LeaksThePayload, &[Rule::Secrets]),
        (Fault::GivesNoAdvice, &[Rule::Configuration]),
        (Fault::ProbesNothing, &[Rule::Probe]),
        (Fault::ProbesByWriting, &[Rule::Probe]),
    ])
    .await;
}
