//! A copy of the sources in which a line can be made wrong.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::list::Mutation;

/// How many seeds are run at most for each mutation.
const SEEDS: &str = "1500";
/// How many without a mutation, to know that it is the mutation that fails.
const SEEDS_BEFORE: &str = "100";
/// How much of a violation is shown, in characters.
const SHOWN: usize = 100;

/// What the crates of the simulation are made of.
const SOURCES: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "sinks.toml",
    "migrations",
    "outbox",
    "sinks",
    "runtime",
    "simulation",
];

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What came of a mutation.
#[derive(Debug)]
pub(crate) enum Caught {
    /// A seed failed: the violation.
    By(String),
    /// None did.
    Never,
}

/// One copy of the sources, in `target/mutations`.
pub(crate) struct Workshop {
    sources: PathBuf,
    target: PathBuf,
}

impl Workshop {
    /// So many workshops, each with its copy: compiling one line anew keeps one processor busy.
    pub(crate) fn open(count: usize) -> Result<Vec<Self>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folder = root.join("target").join("mutations");
        let workshop = |number: usize| Self {
            sources: folder.join(format!("sources-{number}")),
            target: folder.join(format!("target-{number}")),
        };
        let first = workshop(0);
        first.fill(&root)?;
        let Caught::Never = first.run(SEEDS_BEFORE)? else {
            return Err("a seed fails without any mutation: see `make sim`".into());
        };
        let mut all = vec![first];
        for other in (1..count).map(workshop) {
            other.fill(&root)?;
            // With the times of the files, by which cargo goes: dependencies are compiled once.
            if let (false, Some(first)) = (other.target.exists(), all.first()) {
                let mut copy = Command::new("cp");
                copy.arg("-a").arg(&first.target).arg(&other.target);
                let copied = copy.output()?;
                if !copied.status.success() {
                    return Err(format!("copy what is compiled: {}", said(&copied)).into());
                }
            }
            all.push(other);
        }
        Ok(all)
    }

    /// Copies the sources anew; what was compiled before stays.
    fn fill(&self, root: &Path) -> Result<()> {
        // A file that was moved since the last time must not stay behind.
        if self.sources.exists() {
            fs::remove_dir_all(&self.sources)?;
        }
        fs::create_dir_all(&self.sources)?;
        for source in SOURCES {
            copy(&root.join(source), &self.sources.join(source))?;
        }
        // The workspace without the members that are not copied.
        let manifest = self.sources.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)?;
        let members = text
            .lines()
            .find(|line| line.starts_with("members = "))
            .ok_or("the workspace has no line of members")?;
        let few = "members = [\"outbox\", \"sinks\", \"runtime\", \"simulation\"]";
        fs::write(&manifest, text.replace(members, few))?;
        Ok(())
    }

    /// Makes one line wrong, runs seeds, and makes it right again.
    pub(crate) fn tries(&self, mutation: &Mutation) -> Result<Caught> {
        let file = self.sources.join(mutation.file);
        let right = fs::read_to_string(&file)?;
        let found = right.matches(mutation.find).count();
        if found != 1 {
            let (name, file) = (mutation.name, mutation.file);
            return Err(format!("{name}: its text is {found} times in {file}").into());
        }
        fs::write(&file, right.replace(mutation.find, mutation.replace))?;
        let caught = self.run(SEEDS);
        fs::write(&file, right)?;
        caught.map_err(|error| format!("{}: {error}", mutation.name).into())
    }

    fn run(&self, count: &str) -> Result<Caught> {
        // The one that runs this program, or the one in the path.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build
            .current_dir(&self.sources)
            .env("CARGO_TARGET_DIR", &self.target)
            .args([
                "build",
                "--quiet",
                "--offline",
                "--profile",
                "sim",
                "-p",
                "simulation",
            ])
            .args(["--bin", "simulation"]);
        let built = build.output()?;
        if !built.status.success() {
            return Err(format!("does not compile: {}", said(&built)).into());
        }
        let mut seeds = Command::new(self.target.join("sim").join("simulation"));
        let ran = seeds.args(["--seeds", count, "--whole"]).output()?;
        if ran.status.success() {
            return Ok(Caught::Never);
        }
        let told = said(&ran);
        let violation = told.lines().find(|line| line.contains("violat"));
        let violation = violation.unwrap_or("it ended badly").trim();
        Ok(Caught::By(violation.chars().take(SHOWN).collect()))
    }
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

/// Copies a file or a folder.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !fs::metadata(from)?.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        copy(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}
