//! The sinks against real servers.

mod s3;
