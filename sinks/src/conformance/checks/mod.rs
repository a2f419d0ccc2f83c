//! The checks, one file a rule, in the order in which they run: what a sink does when all
//! is well, then with events that are not taken, then with a network that fails.
//!
//! The deadline of every call, the form of every answer and what lies at the destination
//! are looked at in all of them; so a check may find a rule broken that is not its own.

mod ahead;
mod background;
mod blame;
mod close;
mod configuration;
mod deadline;
mod durability;
mod input;
mod isolation;
mod limits;
mod order;
mod outage;
mod payload;
mod probe;
mod progress;
mod redelivery;
mod replays;
mod retries;
mod secrets;
mod takeover;
mod verdicts;

use super::Destination;
use super::suite::Suite;

/// Runs all of them.
pub(super) async fn all<D: Destination>(suite: &mut Suite<'_, D>) {
    limits::checks(suite).await;
    probe::checks(suite).await;
    order::checks(suite).await;
    ahead::checks(suite).await;
    payload::checks(suite).await;
    durability::checks(suite).await;
    redelivery::checks(suite).await;
    verdicts::checks(suite).await;
    blame::checks(suite).await;
    input::checks(suite).await;
    outage::checks(suite).await;
    deadline::checks(suite).await;
    background::checks(suite).await;
    retries::checks(suite).await;
    takeover::checks(suite).await;
    close::checks(suite).await;
    configuration::checks(suite).await;
    replays::checks(suite).await;
    progress::checks(suite).await;
    isolation::checks(suite).await;
    // Last: it looks at every error of the others.
    secrets::checks(suite).await;
}
