//! Sink `s3`.
