//! Panics: the simulated sinks' own are part of the game; any other one is a bug.
//!
//! The runtime catches panics of its tasks and begins anew, so they are seen here, where
//! every panic comes by.

use std::cell::RefCell;
use std::panic::PanicHookInfo;

use crate::sink::OWN_PANIC;

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has panics noted instead of printed, on all threads.
pub(crate) fn watch() {
    std::panic::set_hook(Box::new(note));
}

fn note(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let message = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    if message == OWN_PANIC {
        return;
    }
    let place = panic.location().map(ToString::to_string);
    let seen = format!("{message} at {}", place.unwrap_or_default());
    LAST.with(|last| {
        last.borrow_mut().get_or_insert(seen);
    });
}

/// The first panic on this thread since the last look.
pub(crate) fn take() -> Option<String> {
    LAST.with(RefCell::take)
}
