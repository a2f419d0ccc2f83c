//! The conformance kit against a small real server, with a sink that keeps every rule and
//! with sinks that break one rule each: the kit must name that rule, and no other.

#![cfg(test)]

mod connection;
mod destination;
mod faults;
mod honest;
mod ledger;
mod sink;
mod wrong;

use outbox_sinks::conformance::{self, Repetitions, Report};

use destination::LedgerDestination;
use faults::Fault;
use ledger::Ledger;

/// What the kit says about a sink with this fault.
async fn report(fault: Fault, repetitions: Repetitions) -> Report {
    let ledger = Ledger::start(repetitions == Repetitions::Dropped).await;
    let destination = LedgerDestination {
        ledger,
        fault,
        repetitions,
    };
    conformance::check(&format!("{fault:?}"), &destination).await
}
