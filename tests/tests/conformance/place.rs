//! Names of one's own.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A name that nobody else has in this process: letters and digits.
pub(crate) fn name(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
