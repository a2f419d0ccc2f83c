//! What the ladder must know of a destination.

use anyhow::Result;

use super::gate::Gate;

/// A server that is drained to. A run has a place of its own there: a topic, a stream, a bucket.
pub(super) trait Destination {
    /// How it is called in commands of the floor and in tables: `kafka`.
    fn name(&self) -> &'static str;

    /// Makes an empty place.
    async fn make(&self, place: &str) -> Result<()>;

    /// The table of the sink that writes there, with everything that must be set.
    fn sink(&self, place: &str) -> String;

    /// The floor's arguments.
    fn floor_args(&self, place: &str) -> Vec<String>;

    /// How far it is, in [units](Self::complete). It is asked a hundred times a second, so this
    /// is cheap.
    async fn progress(&self, place: &str) -> Result<u64>;

    /// How much progress a backlog of so many events and payload bytes makes.
    fn complete(&self, events: u32, payload_bytes: u64) -> u64;

    /// Gives everything that is there to the gate.
    async fn read(&self, place: &str, gate: &mut Gate) -> Result<()>;

    /// Removes the place.
    async fn remove(&self, place: &str) -> Result<()>;
}
