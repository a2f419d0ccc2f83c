//! The sinks against real servers, one file a sink.

mod nats;
