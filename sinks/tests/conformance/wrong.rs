//! Sinks that break one rule each. Several are checked at once: they mostly wait.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use outbox_sinks::conformance::{Check, Repetitions, Rule};

use super::faults::Fault;
use super::report;

/// A fault, and exactly the rules that it breaks.
type Wrong = (Fault, &'static [Rule]);

const TOO_EARLY: &[Wrong] = &[
    (Fault::AcknowledgesBeforeItIsDurable, &[Rule::Durability]),
    (Fault::AcknowledgesWithoutSending, &[Rule::Durability]),
    (Fault::ForgetsWhatItBegan, &[Rule::Durability]),
    (Fault::GivesTooFewVerdicts, &[Rule::Verdicts]),
];

const REORDER: &[Wrong] = &[
    (Fault::ReordersAKey, &[Rule::Order]),
    (Fault::ReordersOnRetry, &[Rule::Order]),
    (Fault::FollowsARefusedEvent, &[Rule::Order]),
];

const BLAME: &[Wrong] = &[
    (Fault::BlamesTheWholeBatch, &[Rule::Blame]),
    (Fault::PanicsOnAnOddEvent, &[Rule::Input]),
    (Fault::RewritesThePayload, &[Rule::Payload]),
];

const NO_OUTAGE: &[Wrong] = &[
    (Fault::CallsAnOutageUndeliverable, &[Rule::Outage]),
    (Fault::CallsAnOutageFailed, &[Rule::Outage]),
    (Fault::CallsAnOutageMisconfigured, &[Rule::Outage]),
    (Fault::GoesStraightToTheServer, &[Rule::Outage, Rule::Probe]),
];

const TRY_AGAIN: &[Wrong] = &[
    (Fault::ResendsAfterALostAnswer, &[Rule::Retries]),
    (Fault::LoopsUntilItWorks, &[Rule::Retries, Rule::Deadline]),
    (Fault::SendsLaterInTheBackground, &[Rule::Background]),
    (Fault::SendsWhatItBeganLater, &[Rule::Background]),
    (Fault::FlushesWhenItCloses, &[Rule::Close]),
];

const WAIT: &[Wrong] = &[
    (Fault::HasNoDeadline, &[Rule::Deadline]),
    (Fault::ReturnsALittleLate, &[Rule::Deadline]),
    (Fault::HangsInClose, &[Rule::Close]),
];

const TELL: &[Wrong] = &[
    (Fault::LeaksThePassword, &[Rule::Secrets]),
    (Fault::LeaksThePayload, &[Rule::Secrets]),
    (Fault::LeaksTheSubject, &[Rule::Secrets]),
    (Fault::GivesNoAdvice, &[Rule::Configuration]),
    (Fault::ProbesNothing, &[Rule::Probe]),
    (Fault::ProbesByWriting, &[Rule::Probe]),
];

const SHARE: &[Wrong] = &[
    (Fault::DropsReplays, &[Rule::Replays]),
    (Fault::KeepsRepetitions, &[Rule::Redelivery]),
    (Fault::BlamesALateOwner, &[Rule::Takeover]),
    (Fault::WritesToTheLastPlace, &[Rule::Isolation]),
    (Fault::TakesNoEvents, &[Rule::Limits]),
];

async fn break_exactly(wrong: &[Wrong]) {
    let reports = wrong.iter().map(|(fault, _)| {
        let drops = *fault == Fault::DropsReplays;
        let promised = drops || *fault == Fault::KeepsRepetitions;
        let repetitions = if promised {
            Repetitions::Dropped
        } else {
            Repetitions::Kept
        };
        report(*fault, drops, repetitions)
    });
    let reports = join_all(reports).await;
    for ((fault, rules), report) in wrong.iter().zip(reports) {
        let expected: BTreeSet<Rule> = rules.iter().copied().collect();
        assert_eq!(report.broken_rules(), expected, "{fault:?}\n{report}");
    }
}

#[test]
fn every_rule_is_broken_by_one_of_these_sinks() {
    let all = [
        TOO_EARLY, REORDER, BLAME, NO_OUTAGE, TRY_AGAIN, WAIT, TELL, SHARE,
    ];
    let broken = all.into_iter().flatten().flat_map(|(_, rules)| *rules);
    let broken: BTreeSet<Rule> = broken.copied().collect();
    // Those that store a position are in `positions`.
    let all = Rule::ALL.iter().copied();
    assert_eq!(broken, all.filter(|rule| *rule != Rule::Progress).collect());
}

#[tokio::test]
async fn sinks_that_acknowledge_too_early_are_found() {
    break_exactly(TOO_EARLY).await;
}

#[tokio::test]
async fn sinks_that_reorder_are_found() {
    break_exactly(REORDER).await;
}

#[tokio::test]
async fn sinks_that_blame_innocents_or_spoil_events_are_found() {
    break_exactly(BLAME).await;
}

#[tokio::test]
async fn sinks_that_take_an_outage_for_something_else_are_found() {
    break_exactly(NO_OUTAGE).await;
}

#[tokio::test]
async fn sinks_that_try_again_on_their_own_are_found() {
    break_exactly(TRY_AGAIN).await;
}

#[tokio::test]
async fn sinks_that_wait_for_ever_are_found() {
    break_exactly(WAIT).await;
}

#[tokio::test]
async fn sinks_that_tell_operators_too_much_or_too_little_are_found() {
    break_exactly(TELL).await;
}

#[tokio::test]
async fn sinks_that_mistake_copies_owners_and_places_are_found() {
    break_exactly(SHARE).await;
}

/// Within one process nobody sees it.
#[tokio::test]
async fn a_sink_that_drops_repetitions_only_until_its_process_ends_is_found() {
    let fault = Fault::RemembersInItsConnector;
    let report = report(fault, false, Repetitions::Dropped).await;
    let failed: BTreeSet<_> = report.failures().map(Check::name).collect();
    for check in [
        "the same batch again loses nothing",
        "a batch that overlaps the last one loses nothing",
        "after a drop without a close, the same lease goes on",
        "after a drop without a close, a newer lease goes on",
    ] {
        assert!(failed.contains(check), "{check}\n{report}");
    }
}

#[tokio::test]
async fn a_sink_that_takes_an_outage_for_something_else_when_asked_for_its_position_is_found() {
    let report = report(
        Fault::CallsAnOutageFailedWhenAsked,
        false,
        Repetitions::Kept,
    )
    .await;
    let expected = BTreeSet::from([Rule::Outage, Rule::Progress]);
    assert_eq!(report.broken_rules(), expected, "{report}");
}
