//! Draining a backlog: how fast what is in the table gets to a destination.

pub mod kafka;
pub mod nats;
pub mod s3;
