//! Ships events to a bucket of S3, or of a store that speaks its protocol, as
//! objects of newline-delimited JSON.
//!
//! Each batch becomes one object for each partition, and then a manifest that
//! names them: a reader who goes by manifests sees whole batches only. An object's
//! name is made of the batch's range and of a hash of what is in it, so one name
//! never stands for two contents, and writing a batch twice changes nothing (OB-8). Its
//! ranges are frozen: a batch that was begun comes again as it was until it is stored as
//! a whole, so that the second attempt writes those names and no others, and a manifest
//! may say that everything up to its end is done with.
//!
//! ```toml
//! [sinks.warehouse.s3]
//! bucket = "example-events"
//! prefix = "outbox"
//! region = "eu-central-1"
//! compression = "zstd"
//! partition_by = ["type", "date"]
//! ```
//!
//! Guards OB-1 (delivered means: every object and the manifest were acknowledged)
//! and OB-8. It does not order objects against each other: the order is in the
//! names, the manifests and each event's `sequence`. So what is delivered apart from the
//! flow (a replay, or an event ahead of its turn) breaks no order; it gets names of its
//! own and claims nothing. The sink does not delete, merge or overwrite anything.
//!
//! Read in this order: `config`, `sink`, `classify`; then `partition` and `key` (where
//! an event goes), `body` (the bytes), `manifest`, `store` (one conditional put), and
//! `client` (how S3 is reached).

mod config;
mod sink;

mod classify;

mod body;
mod client;
mod key;
mod manifest;
mod partition;
mod store;

pub use body::Compression;
pub use client::Checksums;
pub use config::{Kind, Settings};
pub use partition::PartitionBy;
