//! What the tests of the whole project stand on. [`servers`] starts the real Postgres, Kafka,
//! NATS, Redis and S3 that they run against; a server that is not installed is a failure, never a skip.

pub mod servers;
