//! Events as they come: how quickly they arrive, what waiting for them costs, and what it costs
//! those who publish.

mod beside;
mod consumer;
mod contender;
mod figures;
mod held;
pub mod idle;
mod journal;
pub mod latency;
mod lines;
pub mod plain;
mod publish_cost;
mod publisher;
pub mod publishers;
mod raw;
pub mod scale;
