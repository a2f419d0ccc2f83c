//! A server that an earlier `sinks dev` left behind: found by its `postmaster.pid`,
//! and ended before its data is used again.
//!
//! A pid alone proves nothing, since it may belong to another process by now. A
//! process is only ended if it is a server that works in this very data folder.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::time::{Instant, sleep};

use super::DevError;

/// What the postmaster writes down about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Postmaster {
    pub(super) pid: i32,
    /// Whether it takes connections.
    pub(super) ready: bool,
}

impl Postmaster {
    /// Reads the data folder's `postmaster.pid`, if there is one.
    pub(super) fn read(data: &Path) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(data.join("postmaster.pid")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok().filter(|pid| *pid > 0)?;
        let ready = lines.nth(6).is_some_and(|status| status.trim() == "ready");
        Some(Self { pid, ready })
    }

    fn pid(self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }

    /// Whether the process is alive and a server on `data`. A server changes into its
    /// data folder, which `/proc` shows; elsewhere its arguments name the folder.
    fn is_serving(self, data: &Path) -> bool {
        let Some(pid) = self.pid() else { return false };
        if test_kill_process(pid).is_err() {
            return false;
        }
        if Path::new("/proc/self/cwd").exists() {
            return std::fs::read_link(format!("/proc/{}/cwd", self.pid))
                .is_ok_and(|folder| folder == data);
        }
        std::process::Command::new("ps")
            .args(["-o", "command=", "-p", &self.pid.to_string()])
            .output()
            .is_ok_and(|output| {
                String::from_utf8_lossy(&output.stdout).contains(&*data.to_string_lossy())
            })
    }
}

/// Ends the server that still works on `data` (a canonical path), if there is one:
/// politely, then without waiting for its clients, then by force.
pub(super) async fn stop(data: &Path) -> Result<Option<i32>, DevError> {
    let Some(server) = Postmaster::read(data).filter(|server| server.is_serving(data)) else {
        return Ok(None);
    };
    for (signal, patience) in [
        (Signal::INT, Duration::from_secs(10)),
        (Signal::QUIT, Duration::from_secs(5)),
        (Signal::KILL, Duration::from_secs(5)),
    ] {
        if let Some(pid) = server.pid() {
            // It may have ended since it was looked at: the wait below tells.
            kill_process(pid, signal).ok();
        }
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if !server.is_serving(data) {
                return Ok(Some(server.pid));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    Err(DevError::Server(format!(
        "the Postgres server that an earlier run left behind (process {}) does not end: stop it by hand",
        server.pid
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "4711\n/data\n1764529000\n5432\n/sock\n\n  5432001    327680\nready   \n";

    #[test]
    fn the_postmasters_file_is_read_as_postgres_writes_it() {
        let read = |text: &str| Postmaster::parse(text).map(|server| (server.pid, server.ready));
        assert_eq!(read(FILE), Some((4711, true)));
        assert_eq!(
            read(&FILE.replace("ready   ", "starting")),
            Some((4711, false))
        );
        assert_eq!(read("4711\n/data\n"), Some((4711, false)));
        for text in ["", "\n", "-1\n", "0\n", "abc\n"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[tokio::test]
    async fn a_pid_that_belongs_to_another_process_by_now_is_left_alone() {
        let data = tempfile::TempDir::new().unwrap();
        let file = FILE.replace("4711", &std::process::id().to_string());
        std::fs::write(data.path().join("postmaster.pid"), file).unwrap();
        let ended = stop(&data.path().canonicalize().unwrap()).await.unwrap();
        assert_eq!(ended, None);
    }
}
