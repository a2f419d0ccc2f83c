//! Draining a backlog: how fast what is in the table gets to a destination, and at what cost.
//!
//! In every round, for every size of event, the contenders take turns with the same rows:
//!
//! 1. L1 reads the rows and throws them away;
//! 2. L2 has the messages in memory and sends them;
//! 3. L3 reads and sends, in the [plainest loop](crate::floor);
//! 4. ours, `sinks run` with its defaults;
//!
//! and those that are compared come in the order A B B A, so that whatever drifts meanwhile
//! counts for both. A ratio is one of a round; what is told is the median of the rounds.
//!
//! One rule for the time of all: it begins when the process is started (for L2, which must have
//! its messages first, and for Debezium, whose virtual machine must be warm first, when it is
//! told to go) and ends when the destination has everything, which the same observer asks it.
//! What everybody costs is asked of the kernel a moment later, from outside.
//!
//! After each run everything is read back. What does not pass the gate (`gate.rs`) fails the
//! benchmark: there is no figure for a wrong result.

mod contender;
mod debezium;
mod destination;
mod figures;
mod floor_process;
mod gate;
pub mod kafka;
mod ladder;
pub mod nats;
mod raw;
mod report;
pub mod s3;
