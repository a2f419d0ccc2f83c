//! The runtime of Outbox Sinks: one loop per sink under its own lease.

pub mod config;
pub mod settings;

pub use config::Registry;
