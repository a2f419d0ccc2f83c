//! The sinks against the real servers.

mod kafka;
mod nats;
