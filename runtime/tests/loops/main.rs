//! The real loop over a store in memory, on paused time.
#![cfg(test)]

mod deaths;
mod delivery;
mod frozen;
mod orders;
mod outages;
mod poison;
mod reading;
mod replays;
mod spreading;
mod stopping;
mod support;
mod telling;
