//! The sinks against real servers.
#![cfg(test)]

mod kafka;
mod nats;
mod s3;
