//! Whether a loop waits for its next batch.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Known to the loop that takes batches and to the task that puts them together.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    waiting: AtomicBool,
    asked: Notify,
}

impl Demand {
    /// The loop waits from now on.
    pub(crate) fn ask(&self) {
        if !self.waiting.swap(true, Ordering::AcqRel) {
            self.asked.notify_one();
        }
    }

    /// It has got a batch.
    pub(crate) fn served(&self) {
        self.waiting.store(false, Ordering::Release);
    }

    /// Whether it waits.
    pub(crate) fn is_there(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Returns once it waits. For one task at a time.
    pub(crate) async fn asked(&self) {
        // An old word may be left from a demand that was served since.
        while !self.is_there() {
            self.asked.notified().await;
        }
    }
}
