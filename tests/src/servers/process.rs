//! A server's process: start, signal, wait, kill; and its log, shown when it fails to start.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::folder::NOBODY;
use super::spawner;

const POLL_INTERVAL: Duration = Duration::from_millis(10);
const LOG_TAIL_BYTES: usize = 4_000;

/// What to start, and where.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    /// What errors and the log call it.
    pub(super) name: &'a str,
    /// The program's path.
    pub(super) program: PathBuf,
    /// Its arguments.
    pub(super) args: Vec<OsString>,
    /// Its working folder; its output is appended to `<name>.log` there.
    pub(super) folder: &'a Path,
    /// Whether to run as nobody, which only root can ask for.
    pub(super) as_nobody: bool,
}

/// A running server. It is killed when dropped, and when this process dies.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the program, which dies with this process.
    pub(super) async fn spawn(launch: Launch<'_>) -> Self {
        let log = launch.folder.join(format!("{}.log", launch.name));
        let output = open_log(&log);
        let mut command = Command::new("setpriv");
        if launch.as_nobody {
            // The user changes first: a change of user clears the signal asked for.
            command.arg(format!("--reuid={NOBODY}"));
            command.arg(format!("--regid={NOBODY}"));
            command.arg("--clear-groups");
        }
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&launch.program)
            .args(&launch.args)
            .current_dir(launch.folder)
            // A Ctrl-C is for the tests; the servers then die with them.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file can be shared"))
            .stderr(output);
        let child = spawner::spawn(command)
            .await
            .expect("setpriv of util-linux can be started: run `make test-servers`");
        Self {
            name: launch.name.to_owned(),
            child,
            log,
        }
    }

    /// Runs a program to its end, which must be a good one.
    pub(super) async fn run(launch: Launch<'_>, within: Duration) {
        let mut process = Self::spawn(launch).await;
        let status = process.wait(within).await;
        assert!(
            status.success(),
            "{} failed ({status}){}",
            process.name,
            process.log_tail()
        );
    }

    /// The process id.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal.
    pub(super) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a child that was not waited for can be signalled");
    }

    /// Waits for the end, and panics if it does not come in time.
    pub(super) async fn wait(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{} did not end within {within:?}{}",
                self.name,
                self.log_tail()
            );
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Ends it as `kill -9` does.
    pub(super) async fn kill(&mut self) {
        drop(self.child.kill());
        let status = self.wait(Duration::from_secs(10)).await;
        assert_eq!(
            status.signal(),
            Some(9),
            "{} had ended before it was killed",
            self.name
        );
    }

    /// Repeats `attempt` until it succeeds. Panics when the process ends first or time runs out,
    /// with the last error and the end of the log.
    pub(super) async fn until_ready<F>(&mut self, within: Duration, attempt: impl Fn() -> F)
    where
        F: Future<Output = Result<(), String>>,
    {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.ended() {
                panic!(
                    "{} ended while it started ({status}){}",
                    self.name,
                    self.log_tail()
                );
            }
            match attempt().await {
                Ok(()) => return,
                Err(error) => assert!(
                    Instant::now() < deadline,
                    "{} was not ready within {within:?}: {error}{}",
                    self.name,
                    self.log_tail()
                ),
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let tail = log
            .get(log.len().saturating_sub(LOG_TAIL_BYTES)..)
            .unwrap_or_default();
        format!(
            "\n--- end of {} ---\n{}",
            self.log.display(),
            String::from_utf8_lossy(tail)
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be stopped by SIGSTOP or gone already; SIGKILL is right in every case.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn open_log(path: &Path) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("a log can be opened in a folder of ours")
}
