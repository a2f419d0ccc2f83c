//! The runtime on which the harness serves what it serves itself: S3.
//!
//! Each test has a runtime of its own, which ends with the test and may be blocked by it. What
//! several tests share must not live there.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

/// The harness's own runtime, which lives as long as the process.
pub(super) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("test-harness")
            .enable_all()
            .build()
            .expect("a runtime for the test harness can be built")
    })
}
