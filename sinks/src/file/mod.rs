//! Sink `file`.
