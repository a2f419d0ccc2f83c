//! A backlog to one destination.

use anyhow::Result;

use crate::lab::Lab;
use crate::target::Target;

/// Measures, in so many rounds.
///
/// # Errors
/// If something could not be measured, or was delivered wrongly.
pub async fn run(lab: &Lab, _rounds: u32) -> Result<Vec<Target>> {
    lab.database().await?;
    Ok(Vec::new())
}
