//! What crate `outbox` promises of a real Postgres: the oldest and the newest.
#![cfg(test)]

mod columns;
mod connections;
mod cursors;
mod dead_letters;
mod fixture;
mod grants;
mod holding;
mod leases;
mod lookalikes;
mod migrating;
mod plan;
mod pruning;
mod publishing;
mod reading;
mod replaying;
mod rules;
mod settling;
mod trials;
mod workers;
