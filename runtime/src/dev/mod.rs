//! `sinks dev`: a private Postgres, sample events from several connections, the real
//! worker with a file sink, and a check of what arrived.
//!
//! Everything it makes is in one folder. Each run begins with an empty database and an
//! empty output file, so that the figures at the end are this run's. No process is left
//! behind, however it ends: see [`Server`].

mod account;
mod binaries;
mod counted;
mod error;
mod folder;
mod initdb;
mod ledger;
mod leftover;
mod output;
mod progress;
mod publishers;
mod run;
mod sample;
mod server;
mod verify;
mod worker;

pub use binaries::{Binaries, Lookup};
pub use error::DevError;
pub use run::{DevOptions, run};
pub use server::Server;
pub use verify::Summary;
