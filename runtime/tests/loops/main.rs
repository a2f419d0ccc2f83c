//! The real loop over a store in memory, on paused time.
#![cfg(test)]

mod ahead;
mod deaths;
mod delivery;
mod exactly_once;
mod frozen;
mod orders;
mod outages;
mod poison;
mod reading;
mod replays;
mod saving;
mod sharing;
mod spreading;
mod stopping;
mod support;
mod telling;
