//! Sink `kafka`.
