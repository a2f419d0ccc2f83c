//! A store in memory that fails on demand, and sinks that do what a test scripts.

mod destination;
mod leases;
mod ledger;
mod reader;
mod store;
mod worker;

use std::time::Duration;

use outbox::Position;

pub(crate) use destination::Destination;
pub(crate) use ledger::{Ledger, Loss};
pub(crate) use store::{MemoryStore, State};
pub(crate) use worker::{Worker, settings};

pub(crate) const FIVE: [&str; 5] = ["a.one", "a.two", "b.three", "a.four", "a.five"];

pub(crate) fn cursor_at(store: &MemoryStore, txid: u64) -> bool {
    store.look(|state| state.cursor.position == Position::new(txid, 1))
}

/// Lets (paused) time pass until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..200_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came true: {what}");
}
