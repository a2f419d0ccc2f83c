//! Follows the page in an empty folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use outbox_tests::servers::{PostgresVersion, shared};
use tokio::time::{Instant, sleep};

use super::compare::fits;
use super::page::{Command, Step, steps};
use super::shell::Shell;
use super::{GUIDE, ROOT, read};

/// Enough for a build from nothing on a machine that does other things as well.
const COMMAND: Duration = Duration::from_secs(900);

/// How long a reader looks again until something has happened that takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn who_follows_the_guide_ends_with_a_sink_that_works() {
    let postgres = shared::postgres(PostgresVersion::Newest).await;
    let database = postgres.database().await;
    let mut reader = Reader::new(&database.url());
    let steps = steps(&read(GUIDE));
    let (mut files, mut commands) = (0, 0);
    for step in &steps {
        match step {
            Step::File { path, text } => {
                reader.write(path, text);
                files += 1;
            }
            Step::Excerpt { path, text } => assert!(
                read(path).contains(text.as_str()),
                "{path} has no such lines any more:\n{text}"
            ),
            Step::Console(block) => {
                for command in block {
                    reader.run(command).await;
                    commands += 1;
                }
            }
        }
    }
    assert!(
        files >= 8 && commands >= 15,
        "{files} files, {commands} commands"
    );
    reader.expect_formatted();
    reader.tidy();
}

/// Who follows the page.
struct Reader {
    shell: Shell,
    /// Where everything is written. The crate is in a folder of its own below.
    folder: tempfile::TempDir,
}

impl Reader {
    fn new(database: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("reader");
        std::fs::create_dir(&empty).unwrap();
        let target = target();
        let environment = [
            ("DATABASE_URL", database),
            ("CARGO_TARGET_DIR", target.to_str().unwrap()),
            // What the lock file names is here already, for it built this test.
            ("CARGO_NET_OFFLINE", "true"),
            // Nobody looks into these programs with a debugger, or builds them twice.
            ("CARGO_PROFILE_DEV_DEBUG", "false"),
            ("CARGO_INCREMENTAL", "0"),
        ];
        let shell = Shell::start(&empty, folder.path().join("command"), &environment);
        Self { shell, folder }
    }

    /// The terminal's folder: the page says `cd`, and files belong where the terminal is.
    fn here(&mut self) -> PathBuf {
        self.shell.run("pwd", COMMAND).0.concat().into()
    }

    fn write(&mut self, path: &str, text: &str) {
        let here = self.here();
        assert!(
            here.starts_with(self.folder.path().canonicalize().unwrap()),
            "{here:?}"
        );
        let file = here.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        if path == "Cargo.toml" {
            std::fs::copy(format!("{ROOT}Cargo.lock"), here.join("Cargo.lock")).unwrap();
            std::fs::write(file, format!("{text}{}", patch())).unwrap();
        } else {
            std::fs::write(file, text).unwrap();
        }
    }

    /// Runs a command and compares. What only looks is repeated, since what it looks for may
    /// take its time.
    async fn run(&mut self, command: &Command) {
        let started = Instant::now();
        let line = &command.line;
        loop {
            let (printed, status) = self.shell.run(line, COMMAND);
            if status == 0 && fits(&command.prints, &printed) {
                println!("{:6.1} s  $ {line}", started.elapsed().as_secs_f64());
                return;
            }
            assert!(
                looks(line) && started.elapsed() < PATIENCE,
                "$ {line}\n\n--- printed, with exit status {status}\n{}\n--- {GUIDE} shows\n{}\n",
                printed.join("\n"),
                command.prints.join("\n")
            );
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Throws away what was built of the reader's crate: the next one lies in another folder, and
    /// would find none of it.
    fn tidy(&mut self) {
        let (printed, status) = self
            .shell
            .run("cargo clean -q -p outbox-sink-ledger", COMMAND);
        assert_eq!(status, 0, "{}", printed.join("\n"));
    }

    /// The code on the page is as rustfmt writes it.
    fn expect_formatted(&mut self) {
        let (printed, status) = self.shell.run("cargo fmt --check", COMMAND);
        assert_eq!(status, 0, "{}", printed.join("\n"));
    }
}

/// Whether a command changes nothing, so that it can be repeated.
fn looks(line: &str) -> bool {
    let words: Vec<_> = line.split_whitespace().collect();
    matches!(words[0], "cat" | "curl" | "tail") || words.contains(&"status")
}

/// A folder for what is built, so that only the first run is slow: `guide`, in the target
/// folder of this test.
fn target() -> PathBuf {
    // <target>/<profile>/deps/<this test>
    let this = std::env::current_exe().unwrap();
    this.ancestors().nth(3).unwrap().join("guide")
}

/// The versions that the page names, before they are published.
fn patch() -> String {
    let root = Path::new(ROOT).canonicalize().unwrap();
    let entry =
        |(name, folder): (&str, &str)| format!("{name} = {{ path = {:?} }}\n", root.join(folder));
    let crates = [
        ("outbox", "outbox"),
        ("outbox-sinks", "sinks"),
        ("outbox-runtime", "runtime"),
    ];
    "\n[patch.crates-io]\n".to_owned() + &crates.map(entry).concat()
}
