//! What crate `outbox` promises of a real Postgres: the oldest and the newest.
#![cfg(test)]

mod columns;
mod connections;
mod cursors;
mod fixture;
mod grants;
mod leases;
mod lookalikes;
mod migrating;
mod plan;
mod publishing;
mod reading;
mod rules;
