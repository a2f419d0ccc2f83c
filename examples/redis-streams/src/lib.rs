//! A sink for Redis streams: events become entries, in order and at least once.
//!
//! It is a model to copy. What a sink is made of is here in the order to read it, each part in a
//! file of its own:
//!
//! 1. `config`: the table `[sinks.<name>.redis]`, read strictly and checked before anything connects;
//! 2. `entry`: an event as the command that adds it, or the reason why it can never be sent;
//! 3. `durability`: whether the server keeps what it acknowledges;
//! 4. `connection`: one connection, never repaired;
//! 5. `outcome`: what Redis answered, event by event;
//! 6. `classify`: what each error means, in one match;
//! 7. `sink`: the connector and the sink, which act.
//!
//! ```toml
//! [sinks.feed.redis]
//! url = "rediss://redis.example.com:6379"
//! stream = "events.{area}"
//! password_file = "/run/secrets/redis"
//! ```
//!
//! # How it keeps the contract
//!
//! *Delivered means durable.* Redis answers before anything is on disk unless it is told otherwise, so
//! a server that would lose acknowledged entries is refused when the sink is opened (`durability`).
//!
//! *Order* (OB-4). A batch is one transaction, `MULTI … EXEC`: either nothing of it happened, or its
//! commands ran one after another with nobody's in between. Redis does not roll back a command that
//! fails inside, such as one for a key that holds no stream, and goes on with the next. Such an error
//! is the stream's and not one command's, so it meets every later entry of the same stream too: within
//! a stream there is never a gap, and that is the key within which order is kept
//! (see [`Connector::key`](outbox_sinks::Connector::key)).
//!
//! *Nothing behind the runtime's back.* A connection ends with its first failure, and what it had not
//! sent yet ends with it. Bytes that are on their way in the network may still arrive: such a late copy
//! of a batch repeats events whose predecessors are stored, and skips none.

mod classify;
mod config;
mod connection;
mod durability;
mod entry;
mod outcome;
mod sink;

pub use config::{RedisStreams, Settings};
pub use durability::Durability;
