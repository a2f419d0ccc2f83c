//! The servers that a whole test binary shares. They start when a test first asks for them, and
//! end with the process.
//!
//! Never stop, freeze or misconfigure one of these: start one of your own for that.

use tokio::sync::OnceCell;

use super::{Kafka, Nats, Postgres, PostgresVersion, Redis, S3};

/// The shared Kafka: use topics of your own.
pub async fn kafka() -> &'static Kafka {
    static KAFKA: OnceCell<Kafka> = OnceCell::const_new();
    KAFKA.get_or_init(Kafka::start).await
}

/// The shared NATS: use streams and subjects of your own.
pub async fn nats() -> &'static Nats {
    static NATS: OnceCell<Nats> = OnceCell::const_new();
    NATS.get_or_init(Nats::start).await
}

/// The shared Postgres of a version: use a [`database`](Postgres::database) of your own. What
/// counts for a whole cluster, such as the horizon, is not yours alone here.
pub async fn postgres(version: PostgresVersion) -> &'static Postgres {
    static OLDEST: OnceCell<Postgres> = OnceCell::const_new();
    static NEWEST: OnceCell<Postgres> = OnceCell::const_new();
    match version {
        PostgresVersion::Oldest => OLDEST.get_or_init(Postgres::oldest).await,
        PostgresVersion::Newest => NEWEST.get_or_init(Postgres::newest).await,
    }
}

/// The shared Redis: use streams of your own.
pub async fn redis() -> &'static Redis {
    static REDIS: OnceCell<Redis> = OnceCell::const_new();
    REDIS.get_or_init(Redis::start).await
}

/// The shared S3: use buckets of your own.
pub async fn s3() -> &'static S3 {
    static S3_SERVER: OnceCell<S3> = OnceCell::const_new();
    S3_SERVER.get_or_init(S3::start).await
}
