//! The reader's terminal: one bash for the whole page, so that `cd`, `export` and jobs in the
//! background do what they do for a reader.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tokio::time::Instant;

/// Stands before the exit status, and in no output.
const END: char = '\u{1e}';

/// Everything that was started in it ends with it, however this process ends.
#[derive(Debug)]
pub(crate) struct Shell {
    bash: Child,
    input: ChildStdin,
    output: Receiver<String>,
    command: PathBuf,
    janitor: Child,
}

impl Shell {
    /// A shell in `folder`; `command` is a file outside of it that is overwritten each time.
    pub(crate) fn start(folder: &Path, command: PathBuf, environment: &[(&str, &str)]) -> Self {
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc"]);
        // What cargo tells this test about its package is none of the reader's.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_") {
                bash.env_remove(&name);
            }
        }
        bash.env_remove("RUSTFLAGS")
            .env_remove("RUST_LOG")
            .env_remove("RUST_BACKTRACE");
        if let Some(home) = std::env::var_os("CARGO_HOME") {
            bash.env("CARGO_HOME", home);
        }
        bash.envs(environment.iter().copied())
            .current_dir(folder)
            .process_group(0);
        let mut bash = bash
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let janitor = Command::new("sh")
            .args([
                "-c",
                "cat >/dev/null; kill -s KILL -- \"-$1\"",
                "janitor",
                &bash.id().to_string(),
            ])
            .process_group(0)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (lines, output) = channel();
        let printed = BufReader::new(bash.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in printed.split(b'\n').map_while(Result::ok) {
                // Nobody listens any more once the shell is dropped.
                drop(lines.send(String::from_utf8_lossy(&line).into_owned()));
            }
        });
        let mut input = bash.stdin.take().unwrap();
        input.write_all(b"exec 2>&1\n").unwrap();
        Self {
            bash,
            input,
            output,
            command,
            janitor,
        }
    }

    /// Runs a command to its end. Returns what it printed and its exit status.
    pub(crate) fn run(&mut self, line: &str, within: Duration) -> (Vec<String>, i32) {
        std::fs::write(&self.command, line).unwrap();
        let path = self.command.display();
        writeln!(self.input, ". {path} </dev/null; printf '\\n{END}%s\\n' $?").unwrap();
        let deadline = Instant::now() + within;
        let mut printed = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(next) = self.output.recv_timeout(left) else {
                panic!(
                    "`{line}` did not end within {within:?}; so far:\n{}",
                    printed.join("\n")
                );
            };
            if let Some(status) = next.strip_prefix(END) {
                while printed.last().is_some_and(String::is_empty) {
                    printed.pop();
                }
                return (printed, status.parse().unwrap());
            }
            printed.push(next);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        drop(self.janitor.wait());
        drop(self.bash.wait());
    }
}

#[tokio::test]
async fn a_shell_remembers_where_it_is_and_ends_with_all_its_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(folder.path(), folder.path().join(".command"), &[("A", "1")]);
    let soon = Duration::from_secs(20);
    assert_eq!(
        shell.run("mkdir x; cd x; export B=2; false", soon),
        (vec![], 1)
    );
    assert_eq!(
        shell.run("basename $PWD; echo $A$B >&2", soon).0,
        ["x", "12"]
    );
    assert_eq!(shell.run("sleep 600 &", soon).1, 0);
    let job = shell.run("echo $!", soon).0.concat();
    drop(shell);
    let gone = || {
        !Path::new("/proc").join(&job).join("fd").exists()
            || std::fs::read_to_string(format!("/proc/{job}/stat"))
                .is_ok_and(|it| it.contains(") Z"))
    };
    while !gone() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
