//! The runtime of Outbox Sinks: one loop per sink, under a lease of its own.
//!
//! Read in this order: [`worker`], [`dispatch`] (the loop on one screen), `tenure`
//! (its actions), [`decide`] (what to do next, pure), [`feed`] (reading ahead),
//! [`head`], [`saves`] and [`keeper`] (what all loops write together), [`store`] (what the
//! loop needs of the database); then [`board`] (what the loops say they are doing) and
//! `http`, which shows it; then [`config`] and [`cli`], which put it to use.

mod assembly;
pub mod attempt;
pub mod board;
pub mod cli;
pub mod config;
pub mod decide;
mod demand;
#[cfg(feature = "file")]
pub mod dev;
pub mod dispatch;
pub mod feed;
mod grid;
pub mod head;
mod hold;
mod http;
pub mod keeper;
mod outage;
mod replays;
mod report;
pub mod retention;
pub mod saves;
pub mod settings;
mod spread;
pub mod store;
mod tenure;
mod together;
pub mod worker;

pub use config::Registry;
