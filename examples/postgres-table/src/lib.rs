//! A sink for a table in another Postgres database: exactly once.
//!
//! It is a model to copy for any destination with transactions. In reading order:
//!
//! 1. `config`: the table `[sinks.<name>.table]`, read strictly and checked before anything
//!    connects;
//! 2. `row`: an event as a row, or the reason why it can never be one;
//! 3. `statements`: the SQL, with the names of the tables put in once;
//! 4. `classify`: what each error means, in one match;
//! 5. `sink`: the connector and the sink.
//!
//! ```toml
//! [sinks.mirror.table]
//! url = "postgres://sinks@warehouse.example.com/shop"
//! password_file = "/run/secrets/warehouse"
//! table = "orders"
//! key = "{subject}"
//! ```
//!
//! # How it is exactly once
//!
//! The rows of a batch and the [`Progress`](outbox_sinks::Progress) behind them are written in
//! one transaction. Each delivery locks the progress first, leaves out what it covers, and is
//! [fenced](outbox_sinks::ErrorKind::Fenced) off if an owner with a newer lease has written:
//! so it does not matter which answers were lost, or who wakes up late.
//!
//! What is delivered apart from the flow (a replay, a neighbour of an event under suspicion)
//! is not covered by a position. There the upsert is what makes it exactly once: a row keeps
//! the latest event of its key, and the same event twice is the same row.

mod classify;
mod config;
mod row;
mod sink;
mod statements;

pub use config::{PostgresTable, Settings};
