//! Sink `nats`.
