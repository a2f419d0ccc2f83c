//! The contract of an outbox sink, and the sinks that come with it.
//!
//! A destination is a [`Connector`] that opens [`Sink`]s, and a sink takes a
//! [`Batch`] and says what a [`Delivery`] of it came to. The runtime does the rest:
//! leases, cursors, retries, order.
//!
//! Read in this order: [`batch`](Batch), [`sink`](Sink), [`delivery`](Delivery),
//! [`error`](SinkError), [`kind`](SinkKind); for exactly once [`progress`](Progress); then
//! [`format`](Format), [`template`](Template) and [`lines`](Lines), which many sinks use;
//! then one sink's folder, for example `file/`.
//!
//! To write one, follow `docs/write-a-sink.md` in the repository: from `cargo new` to a sink that
//! is tested with the suite in `conformance` (the feature of that name), an afternoon is enough.

mod batch;
mod closure;
#[cfg(feature = "conformance")]
pub mod conformance;
mod delivery;
mod error;
mod format;
mod kind;
mod lines;
mod progress;
mod session;
pub mod settings;
mod sink;
mod template;
mod upcoming;

#[cfg(feature = "file")]
pub mod file;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "s3")]
pub mod s3;

pub use async_trait::async_trait;
pub use batch::Batch;
pub use closure::{Function, from_fn};
pub use delivery::{Delivery, Refusal, Verdict};
pub use error::{ErrorKind, SinkError};
pub use format::{Encoder, Format};
pub use kind::{Problem, Problems, SinkKind};
pub use lines::Lines;
pub use outbox::{Event, Flow, Position};
pub use progress::{InvalidProgress, Progress};
pub use schemars;
pub use session::Session;
pub use sink::{BatchLimits, CLOSE_TIMEOUT, Connector, PROBE_TIMEOUT, Sink};
pub use template::{InvalidTemplate, Template};
pub use upcoming::Upcoming;
