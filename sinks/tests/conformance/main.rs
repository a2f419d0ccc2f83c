//! The conformance kit against a small real server, with a sink that keeps every rule and
//! with sinks that break one rule each: the kit must name that rule, and no other.

#![cfg(test)]

mod broken;
mod connection;
mod destination;
mod faults;
mod frozen;
mod honest;
mod ledger;
mod positions;
mod sink;
mod wrong;

use std::sync::Arc;

use outbox_sinks::conformance::{self, Repetitions, Report};

use destination::LedgerDestination;
use faults::Fault;
use ledger::Ledger;

/// What the kit says about a sink with this fault, at a ledger that drops repetitions or
/// does not, whatever the author says about it.
async fn report(fault: Fault, drops: bool, repetitions: Repetitions) -> Report {
    let destination = LedgerDestination {
        ledger: Ledger::start(drops).await,
        fault,
        proxy: None,
        repetitions,
        shared: Arc::default(),
    };
    conformance::check(&format!("{fault:?}"), &destination).await
}
