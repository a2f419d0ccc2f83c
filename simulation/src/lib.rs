//! The simulation: the real loop over a simulated database, simulated destinations and
//! simulated time, with everything going wrong that can, and an independent model that
//! checks OB-1 to OB-9 after every step.
//!
//! One seed is one run, and always the same one. Read in this order: `plan` and `faults`
//! (what a seed stands for), `agenda` (what happens when), `run` and `host` (the
//! processes take turns), `world` (the tables), `calls` and `store` (the way to them),
//! `destination`, `ledger`, `fortune`, `arrival` and `sink` (deliveries), `model` (the checks), and
//! `report` (what is said about a failure).

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each part acts on its own kinds of actions and leaves the others to other parts"
)]

mod agenda;
mod arrival;
mod calls;
mod chance;
mod destination;
mod faults;
mod fortune;
mod host;
mod ledger;
mod model;
mod panics;
mod plan;
mod quiet;
mod report;
mod run;
mod sink;
mod store;
mod trace;
mod world;

pub use report::{Seeds, Summary, simulate};
