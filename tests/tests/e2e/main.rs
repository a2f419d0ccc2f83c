//! End to end: the real binary `sinks` against real servers.
//!
//! Each module is a theme. Nothing here looks into the process: what is asserted is what an
//! operator or a consumer can see, that is what lies at the destinations, in the tables, in the
//! log, in `sinks status` and in the exit status.
#![cfg(test)]

mod bad_input;
mod broker_outage;
mod commands;
mod crashes;
mod database_outage;
mod dead_letters;
mod destination_outage;
mod dev;
mod digits;
mod documents;
mod exactly_once;
mod examples;
mod filters;
mod fixture;
mod four_sinks;
mod fuse;
mod idle;
mod misconfigured;
mod odd_text;
mod operators;
mod poison;
mod pooler;
mod put_back;
mod replays;
mod restored;
mod retention;
mod roles;
mod spread;
mod stopping;
mod stops_are_no_attempts;
mod takeover;
mod watching;
mod zombies;
