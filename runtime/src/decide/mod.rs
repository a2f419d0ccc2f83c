//! What to do next, decided by pure functions: no clock, no store, no sink here.
//! The loop in `dispatch` acts on what they say.

mod backoff;
mod history;
mod next_step;

pub use backoff::{Backoff, pause};
pub use history::other_history;
pub use next_step::{Attempt, Step, next_step};
