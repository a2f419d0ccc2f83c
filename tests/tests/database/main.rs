//! What crate `outbox` promises of a real Postgres: the oldest and the newest.
#![cfg(test)]

mod adopting;
mod advancing;
mod columns;
mod connections;
mod cursors;
mod dead_letters;
mod fixture;
mod flows;
mod grants;
mod holding;
mod leases;
mod lookalikes;
mod migrating;
mod operations;
mod orders;
mod plan;
mod pruning;
mod publishing;
mod reading;
mod replaying;
mod rules;
mod seeking;
mod settling;
mod status;
mod tailing;
mod trials;
mod workers;
