//! Sinks `file` and `stdout`: one event a line (NDJSON).
//!
//! ```toml
//! [sinks.archive.file]
//! path = "/var/lib/outbox/events.ndjson"
//!
//! [sinks.debug.stdout]
//! format = "cloudevents"
//! ```
//!
//! A file's event counts as delivered once it is synced to disk. The file holds whole
//! lines only: a batch is written to its end or taken back, and what a crash tore is
//! repaired when the file is opened. An advisory lock keeps a second writer away, and
//! a file that was moved or deleted is noticed before the next batch.
//!
//! Lines come in outbox order; what the sink promises is the order within a subject, as
//! every sink does. Only two things stand out of line: a replay, which by its nature
//! comes late, and an event that was written ahead while another subject's event was on
//! trial. One order over everything would forbid that comparison, and then nothing but
//! the next line could tell a poison event from a disk that hangs; and as replays break
//! such an order in any case, a reader who needs it sorts by `sequence`.
//!
//! Does not rotate, compress or partition: that is for logrotate, or for the sink `s3`.
//!
//! Reading order: `config` (the settings), `tail` (what a crash may have left), `target`
//! (the open file), `turn` (one blocking call at a time), `sink` and `stdout` (the
//! sinks), `classify` (what an I/O error means).

mod classify;
mod config;
mod sink;
mod stdout;
mod tail;
mod target;
mod turn;

pub use config::{File, FileSettings, Stdout, StdoutSettings};
