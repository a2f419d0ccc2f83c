//! The runtime of Outbox Sinks: one loop per sink under its own lease.

pub mod dev;
pub mod settings;
