//! The folder of `sinks dev`: whose it is, who works in it, and what is in it.
//!
//! ```text
//! .outbox-dev/
//!   sinks-dev.lock   marks the folder as ours; locked while a `sinks dev` works in it
//!   server/          the server's data and socket (or a link to a temporary folder)
//!   server.new.<pid> the same while that process makes it: renamed when complete
//!   postgres.log     what the server had to say
//! ```
//!
//! Guards two things: no two runs in one folder, and no file touched that we did not
//! make. Only the names above are ever replaced or removed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::DevError;
use super::account::Account;

const LOCK: &str = "sinks-dev.lock";
const SERVER: &str = "server";
/// Followed by the pid: an `initdb` that outlived its killed parent works on under a
/// name that nobody else uses.
const UNFINISHED: &str = "server.new.";
const LOG: &str = "postgres.log";
const TEMPORARY_PREFIX: &str = "outbox-dev-";

/// The longest path of a socket's folder. The whole path must fit into 104 bytes
/// (macOS; Linux has 108) with its final NUL and `/.s.PGSQL.5432`.
const LONGEST_SOCKET_FOLDER: usize = 104 - 1 - "/.s.PGSQL.5432".len();

/// The folder, locked for this process until it is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    dir: PathBuf,
    account: Account,
    _lock: File,
}

/// What an earlier run left.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// Complete data of the right version, in this (canonical) folder.
    Usable(PathBuf),
    /// It is of no use, for this reason.
    Unusable(String),
}

impl Folder {
    /// Makes the folder if there is none, and locks it.
    ///
    /// # Errors
    /// [`DevError::NotOurs`] if somebody else's files are in it, [`DevError::InUse`]
    /// if another process works in it.
    pub(super) fn take(dir: &Path, account: Account) -> Result<Self, DevError> {
        if !dir.exists() {
            fs::create_dir_all(dir).map_err(DevError::file("create the folder", dir))?;
            // Whatever the umask: the server's account has to pass through.
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(dir, mode).map_err(DevError::file("open up", dir))?;
        }
        let dir = dir
            .canonicalize()
            .map_err(DevError::file("find the folder", dir))?;
        let lock = dir.join(LOCK);
        let mut entries = fs::read_dir(&dir).map_err(DevError::file("read the folder", &dir))?;
        if !lock.is_file() && entries.next().is_some() {
            return Err(DevError::NotOurs(dir));
        }
        let lock = take_lock(&lock, &dir)?;
        Ok(Self {
            dir,
            account,
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.join(LOG)
    }

    /// Looks at what an earlier run left, for a server of this major version.
    pub(super) fn found(&self, major: u32) -> Found {
        let link = self.dir.join(SERVER);
        if link.symlink_metadata().is_err() {
            return Found::Nothing;
        }
        let unusable = |why: &str| Found::Unusable(why.to_owned());
        let Ok(server) = link.canonicalize() else {
            return unusable("its temporary folder is gone");
        };
        if !fits_a_socket(&server) {
            return unusable("its path can't hold a socket any more");
        }
        let data = data(&server);
        match fs::metadata(&data) {
            Ok(metadata) if metadata.uid() != self.account.uid() => {
                return unusable("it belongs to another user");
            }
            Ok(_) => {}
            Err(_) => return unusable("it is incomplete"),
        }
        let version = fs::read_to_string(data.join("PG_VERSION")).unwrap_or_default();
        match version.trim() {
            "" => unusable("it is incomplete"),
            version if version != major.to_string() => {
                unusable(&format!("it was made by Postgres {version}"))
            }
            _ if !data.join("global/pg_control").is_file() => unusable("it is incomplete"),
            _ => Found::Usable(server),
        }
    }

    /// Where the data of an earlier run is, usable or not: a server may still be at work
    /// in there. (What was not finished never had a server.)
    pub(super) fn earlier_data(&self) -> Option<PathBuf> {
        data(&self.dir.join(SERVER)).canonicalize().ok()
    }

    /// Makes the folder in which the server's data is to be prepared. Ends with
    /// [`Folder::finish`] or [`Folder::discard`].
    pub(super) async fn prepare(&self) -> Result<PathBuf, DevError> {
        self.discard();
        let here = self.unfinished();
        let fits = fits_a_socket(&self.dir.join(SERVER));
        if fits && self.account.can_enter(&self.dir).await {
            fs::create_dir(&here).map_err(DevError::file("create the folder", &here))?;
            if self.account.take_over(&here).is_ok() && self.account.can_enter(&here).await {
                return Ok(here);
            }
            self.discard();
        }
        for parent in [std::env::temp_dir(), PathBuf::from("/tmp")] {
            let Ok(parent) = parent.canonicalize() else {
                continue;
            };
            let Some(folder) = self.temporary(&parent).await else {
                continue;
            };
            symlink(&folder, &here).map_err(DevError::file("make the link", &here))?;
            return Ok(folder);
        }
        Err(DevError::Server(format!(
            "neither {} nor the folder for temporary files can hold a Postgres server: its path must be \
             at most {LONGEST_SOCKET_FOLDER} bytes long and open to the user it runs as; choose another with --dir",
            self.dir.display()
        )))
    }

    async fn temporary(&self, parent: &Path) -> Option<PathBuf> {
        let folder = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .tempdir_in(parent)
            .ok()?;
        let suits = fits_a_socket(folder.path())
            && self.account.take_over(folder.path()).is_ok()
            && self.account.can_enter(folder.path()).await;
        suits.then(|| folder.keep())
    }

    /// Puts what was prepared in its place, at one stroke.
    pub(super) fn finish(&self) -> Result<PathBuf, DevError> {
        let server = self.dir.join(SERVER);
        fs::rename(self.unfinished(), &server).map_err(DevError::file("put in place", &server))?;
        server
            .canonicalize()
            .map_err(DevError::file("find the folder", &server))
    }

    /// Removes whatever was prepared and not finished, by this process or an earlier
    /// one. What can't be removed is in nobody's way, and the next start tries again.
    pub(super) fn discard(&self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
                self.remove(Path::new(&name)).ok();
            }
        }
    }

    fn unfinished(&self) -> PathBuf {
        self.dir.join(format!("{UNFINISHED}{}", std::process::id()))
    }

    /// Removes the server's data, so that it is made anew.
    pub(super) fn clear(&self) -> Result<(), DevError> {
        self.remove(Path::new(SERVER))
    }

    fn remove(&self, name: &Path) -> Result<(), DevError> {
        let path = self.dir.join(name);
        let removed = match path.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => self
                .remove_target(&path)
                .and_then(|()| fs::remove_file(&path)),
            Ok(_) => fs::remove_dir_all(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(DevError::file("remove", &path)),
        }
    }

    /// Removes the temporary folder that a link leads to, if it is one that we made.
    fn remove_target(&self, link: &Path) -> io::Result<()> {
        let Ok(target) = link.canonicalize() else {
            return Ok(());
        };
        let name = target.file_name().unwrap_or_default();
        let ours = name
            .as_encoded_bytes()
            .starts_with(TEMPORARY_PREFIX.as_bytes())
            && target.metadata()?.uid() == self.account.uid();
        if ours {
            fs::remove_dir_all(target)
        } else {
            Ok(())
        }
    }
}

/// The data folder within a server's folder.
pub(super) fn data(server: &Path) -> PathBuf {
    server.join("data")
}

/// Whether a socket can be made in there, and its path be written in a URL.
fn fits_a_socket(folder: &Path) -> bool {
    folder
        .to_str()
        .is_some_and(|path| path.len() <= LONGEST_SOCKET_FOLDER)
}

/// Locks the file and writes our pid into it. The lock ends with the process, however
/// that ends; the file stays, as the mark that the folder is ours.
fn take_lock(path: &Path, dir: &Path) -> Result<File, DevError> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(DevError::file("open", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // Without the pid the sentence is less helpful, and as true.
            file.read_to_string(&mut text).ok();
            return Err(DevError::InUse {
                dir: dir.to_owned(),
                pid: text.trim().parse().ok(),
            });
        }
        Err(TryLockError::Error(error)) => return Err(DevError::file("lock", path)(error)),
    }
    file.set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .and_then(|_| writeln!(file, "{}", std::process::id()))
        .map_err(DevError::file("write", path))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tempfile::TempDir;

    fn take(dir: &Path) -> Result<Folder, DevError> {
        Folder::take(dir, Account::for_server().unwrap())
    }

    fn pretend_data(server: &Path, version: &str) {
        let data = data(server);
        fs::create_dir_all(data.join("global")).unwrap();
        fs::write(data.join("PG_VERSION"), format!("{version}\n")).unwrap();
        fs::write(data.join("global/pg_control"), "").unwrap();
        Account::for_server().unwrap().take_over(&data).unwrap();
    }

    #[test]
    fn a_folder_with_somebodys_files_is_refused_and_left_as_it_was() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
        let said = take(dir.path()).unwrap_err().to_string();
        assert!(
            said.contains("did not make") && said.contains("--dir"),
            "{said}"
        );
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[tokio::test]
    async fn a_second_run_in_the_folder_is_told_the_pid_of_the_first() {
        let dir = TempDir::new().unwrap();
        let first = take(dir.path()).unwrap();
        let said = take(dir.path()).unwrap_err().to_string();
        let pid = format!("process {}", std::process::id());
        assert!(
            said.contains("already running") && said.contains(&pid),
            "{said}"
        );
        drop(first);
        // A child that another test forks holds every open file until it runs its program.
        let free = async {
            while take(dir.path()).is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), free)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn what_was_not_finished_is_never_found_and_is_gone_with_the_next_start() {
        let dir = TempDir::new().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let folder = take(dir.path()).unwrap();
        let unfinished = folder.prepare().await.unwrap();
        pretend_data(&unfinished, "15");
        assert_eq!(folder.found(15), Found::Nothing);

        let again = folder.prepare().await.unwrap();
        assert!(!data(&again).exists());
        pretend_data(&again, "15");
        let server = folder.finish().unwrap();
        assert_eq!(folder.found(15), Found::Usable(server));
    }

    #[tokio::test]
    async fn data_that_is_incomplete_or_of_another_version_is_of_no_use() {
        let dir = TempDir::new().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let folder = take(dir.path()).unwrap();
        pretend_data(&folder.prepare().await.unwrap(), "14");
        let server = folder.finish().unwrap();
        let Found::Unusable(why) = folder.found(15) else {
            panic!("usable")
        };
        assert!(why.contains("Postgres 14"), "{why}");

        fs::remove_file(data(&server).join("global/pg_control")).unwrap();
        let Found::Unusable(why) = folder.found(14) else {
            panic!("usable")
        };
        assert!(why.contains("incomplete"), "{why}");

        folder.clear().unwrap();
        assert_eq!(folder.found(14), Found::Nothing);
    }

    #[tokio::test]
    async fn a_path_too_long_for_a_socket_leads_to_a_temporary_folder_that_goes_with_it() {
        let dir = TempDir::new().unwrap();
        let folder = take(&dir.path().join("long".repeat(25))).unwrap();
        pretend_data(&folder.prepare().await.unwrap(), "15");
        let server = folder.finish().unwrap();
        assert!(
            !server.starts_with(folder.path()) && fits_a_socket(&server),
            "{server:?}"
        );
        assert_eq!(folder.found(15), Found::Usable(server.clone()));

        fs::rename(&server, server.with_extension("away")).unwrap();
        assert!(matches!(folder.found(15), Found::Unusable(_)));
        fs::rename(server.with_extension("away"), &server).unwrap();

        folder.clear().unwrap();
        assert!(!server.exists());
        assert_eq!(folder.found(15), Found::Nothing);
    }

    #[tokio::test]
    async fn a_link_that_was_pointed_elsewhere_is_removed_and_its_target_is_not() {
        let dir = TempDir::new().unwrap();
        let elsewhere = TempDir::with_prefix("precious-").unwrap();
        let folder = take(dir.path()).unwrap();
        symlink(elsewhere.path(), dir.path().join(SERVER)).unwrap();
        folder.clear().unwrap();
        assert!(elsewhere.path().exists());
        assert_eq!(folder.found(15), Found::Nothing);
    }
}
