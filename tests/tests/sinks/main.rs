//! The sinks against real servers.

mod kafka;
mod nats;
mod s3;
