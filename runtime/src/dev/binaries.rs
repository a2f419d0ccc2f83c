//! Finds the programs of a Postgres server on this machine.
//!
//! Distributions keep `initdb` and `postgres` out of the PATH, in a folder for
//! each major version. Looks, and starts `postgres --version`; installs nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::DevError;

/// The oldest Postgres that has what the outbox needs (`xid8`).
const OLDEST: u32 = 13;

/// Where distributions put them: a folder that holds one for each version, how their
/// names begin, and where the programs are within.
const VERSIONED: [(&str, &str, &str); 5] = [
    ("usr/lib/postgresql", "", "bin"),
    ("usr", "pgsql-", "bin"),
    ("opt/homebrew/opt", "postgresql@", "bin"),
    ("usr/local/opt", "postgresql@", "bin"),
    ("Applications/Postgres.app/Contents/Versions", "", "bin"),
];

const INSTALL: &str = "install Postgres 13 or newer (Debian and Ubuntu: `apt-get install postgresql`, \
     Fedora: `dnf install postgresql-server`, macOS: `brew install postgresql@18`), or set \
     SINKS_PG_BIN to the folder that holds `initdb` and `postgres`";

/// The programs of one Postgres installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    folder: PathBuf,
    major: u32,
}

/// Where to look for them.
#[derive(Clone, Debug, Default)]
pub struct Lookup {
    /// The folder that the user named (`SINKS_PG_BIN`): if there is one, no other counts.
    pub named: Option<PathBuf>,
    /// The value of `PATH`.
    pub path: Option<OsString>,
}

impl Binaries {
    /// Finds them: the named folder; or else the first good one in `PATH`; or else the
    /// newest version in the folders where distributions put them.
    ///
    /// # Errors
    /// [`DevError::NoPostgres`], with what to install.
    pub fn find(lookup: &Lookup) -> Result<Self, DevError> {
        find_below(lookup, Path::new("/"))
    }

    /// The major version, for example 17.
    #[must_use]
    pub const fn major(&self) -> u32 {
        self.major
    }

    /// The folder that holds them.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Why a folder will not do. `None` stands for "nothing of the kind in there".
type Unfit = Option<String>;

fn find_below(lookup: &Lookup, root: &Path) -> Result<Binaries, DevError> {
    if let Some(named) = &lookup.named {
        return inspect(named).map_err(|unfit| {
            let why = unfit.unwrap_or_else(|| "does not hold `initdb` and `postgres`".to_owned());
            DevError::NoPostgres(format!(
                "SINKS_PG_BIN: {} {why}: set it to the folder that holds initdb and postgres, or unset it",
                named.display()
            ))
        });
    }
    let mut unfit = Vec::new();
    let on_path = lookup.path.iter().flat_map(std::env::split_paths);
    for folder in on_path.filter(|folder| folder.is_absolute()) {
        match inspect(&folder) {
            Ok(binaries) => return Ok(binaries),
            Err(why) => unfit.extend(why.map(|why| format!("{} {why}", folder.display()))),
        }
    }
    let mut found = Vec::new();
    for folder in well_known(root) {
        match inspect(&folder) {
            Ok(binaries) => found.push(binaries),
            Err(why) => unfit.extend(why.map(|why| format!("{} {why}", folder.display()))),
        }
    }
    found
        .into_iter()
        .max_by_key(|binaries| binaries.major)
        .ok_or_else(|| DevError::NoPostgres(nothing_found(&unfit)))
}

fn nothing_found(unfit: &[String]) -> String {
    if unfit.is_empty() {
        return format!("there is no Postgres server on this machine: {INSTALL}");
    }
    let unfit = unfit.join("; ");
    format!("there is no usable Postgres server on this machine ({unfit}): {INSTALL}")
}

/// The folders of all versions, below `root` so that tests can make them up.
fn well_known(root: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for (parent, prefix, programs) in VERSIONED {
        let Ok(entries) = std::fs::read_dir(root.join(parent)) else {
            continue;
        };
        let versions = entries.flatten().filter(|entry| {
            let name = entry.file_name();
            name.as_encoded_bytes().starts_with(prefix.as_bytes())
        });
        folders.extend(versions.map(|entry| entry.path().join(programs)));
    }
    folders.sort();
    folders
}

fn inspect(folder: &Path) -> Result<Binaries, Unfit> {
    let (initdb, postgres) = (folder.join("initdb"), folder.join("postgres"));
    if !initdb.is_file() || !postgres.is_file() {
        return Err(None);
    }
    let output = Command::new(&postgres)
        .arg("--version")
        .output()
        .map_err(|error| Some(format!("holds a `postgres` that can't be run: {error}")))?;
    let answer = String::from_utf8_lossy(&output.stdout);
    match major_version(&answer) {
        Some(major) if major >= OLDEST => Ok(Binaries {
            folder: folder.to_owned(),
            major,
        }),
        Some(major) => Err(Some(format!(
            "is Postgres {major}, and {OLDEST} or newer is needed"
        ))),
        None => Err(Some("holds a `postgres` that names no version".to_owned())),
    }
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian …)`, and `17beta1` and `18devel` as well.
fn major_version(answer: &str) -> Option<u32> {
    let version = answer.split_once("(PostgreSQL)")?.1.trim_start();
    let digits = version
        .split(|character: char| !character.is_ascii_digit())
        .next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    fn install(root: &Path, folder: &str, version: &str) -> PathBuf {
        let folder = root.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["initdb", "postgres"] {
            let program = folder.join(name);
            let script = format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n");
            std::fs::write(&program, script).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        folder
    }

    fn message(lookup: &Lookup, root: &TempDir) -> String {
        find_below(lookup, root.path()).unwrap_err().to_string()
    }

    #[test]
    fn the_newest_of_the_installed_versions_is_taken() {
        let root = TempDir::new().unwrap();
        install(root.path(), "usr/lib/postgresql/9.6/bin", "9.6.24");
        install(root.path(), "usr/lib/postgresql/15/bin", "15.18 (Debian)");
        let newest = install(root.path(), "usr/pgsql-17/bin", "17beta1");
        install(root.path(), "opt/homebrew/opt/postgresql@16/bin", "16.2");
        let found = find_below(&Lookup::default(), root.path()).unwrap();
        assert_eq!((found.folder(), found.major()), (newest.as_path(), 17));
    }

    #[test]
    fn the_path_comes_before_the_well_known_folders_and_unfit_folders_in_it_are_passed_over() {
        let root = TempDir::new().unwrap();
        install(root.path(), "usr/lib/postgresql/17/bin", "17.1");
        let old = install(root.path(), "old", "12.3");
        let good = install(root.path(), "good", "14.9");
        let path = std::env::join_paths([&root.path().join("missing"), &old, &good]).unwrap();
        let lookup = Lookup {
            named: None,
            path: Some(path),
        };
        assert_eq!(find_below(&lookup, root.path()).unwrap().folder(), good);
    }

    #[test]
    fn a_named_folder_is_taken_or_refused_but_never_passed_over() {
        let root = TempDir::new().unwrap();
        install(root.path(), "usr/lib/postgresql/17/bin", "17.1");
        let named = install(root.path(), "mine", "13.4");
        let lookup = |folder: &Path| Lookup {
            named: Some(folder.to_owned()),
            path: None,
        };
        assert_eq!(
            find_below(&lookup(&named), root.path()).unwrap().major(),
            13
        );

        let said = message(&lookup(&root.path().join("empty")), &root);
        assert!(
            said.contains("SINKS_PG_BIN") && said.contains("initdb"),
            "{said}"
        );
        let old = install(root.path(), "old", "12.22");
        let said = message(&lookup(&old), &root);
        assert!(
            said.contains("Postgres 12") && said.contains("13 or newer"),
            "{said}"
        );
    }

    #[test]
    fn without_a_server_one_sentence_says_what_to_install() {
        let root = TempDir::new().unwrap();
        let said = message(&Lookup::default(), &root);
        assert!(said.contains("apt-get install postgresql"), "{said}");
        assert!(said.contains("SINKS_PG_BIN"), "{said}");

        install(root.path(), "usr/lib/postgresql/12/bin", "12.1");
        let said = message(&Lookup::default(), &root);
        assert!(said.contains("is Postgres 12"), "{said}");
    }

    #[test]
    fn versions_are_read_as_postgres_prints_them() {
        for (answer, major) in [
            (
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n",
                Some(15),
            ),
            ("postgres (PostgreSQL) 18devel\n", Some(18)),
            ("postgres (PostgreSQL) 9.6.24\n", Some(9)),
            ("postgres (PostgreSQL) \n", None),
            ("pgbouncer 1.2\n", None),
        ] {
            assert_eq!(major_version(answer), major, "{answer}");
        }
    }
}
