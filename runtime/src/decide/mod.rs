//! What to do next, decided by pure functions: no clock, no store, no sink here.
//! The loop in `dispatch` acts on what they say.

mod backoff;
mod caution;
mod fuse;
mod history;
mod judge;
mod queue;
mod replaying;
mod resume;
mod spread;
mod stored;
mod work;

pub use backoff::{Backoff, pause};
pub use caution::Caution;
pub use fuse::{limit, room};
pub use history::other_history;
pub(crate) use judge::Fault;
pub use judge::{Attempt, TimedOut};
pub use replaying::{Replayed, replayed};
pub use resume::{Hunt, Resumption, resume};
pub use spread::give_back;
pub use stored::{Stored, stored};
pub use work::{Before, Next, Rules, Step, Task, Todo, Work};
