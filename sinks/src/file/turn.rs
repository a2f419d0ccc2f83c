//! Whose turn it is to block: one call at a time, also after its caller has gone.
//!
//! A system call that hangs, on a pipe that nobody reads or on a network mount that
//! does not answer, keeps its thread when the delivery is given up. Whoever wants to
//! block takes the turn first and gives it to the thread, so that a retry neither
//! writes beside the earlier call nor takes a thread more: threads that may block are
//! shared by the whole process, and they run out.
//!
//! Does not end a call that hangs: nothing can.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

/// How long a call may wait for the one before it. Two healthy sinks that share one
/// output wait for each other this way, instead of failing.
const PATIENCE: Duration = Duration::from_secs(1);

/// The turn, and what one call leaves for the next to know.
#[derive(Debug, Default)]
pub(super) struct Turn<T>(Arc<Mutex<T>>);

impl<T> Clone for Turn<T> {
    /// The same turn, not a second one.
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Turn<T> {
    /// Takes the turn, which ends when the guard is dropped: by the thread, not by the
    /// caller. `None` if an earlier call seems to hang.
    pub(super) async fn take(&self) -> Option<OwnedMutexGuard<T>> {
        let free = Arc::clone(&self.0).lock_owned();
        timeout(PATIENCE, free).await.ok()
    }
}
