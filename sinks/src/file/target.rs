//! The open file: locked, ending with a line end, and still the one under its path.
//!
//! Everything here blocks, and runs on a thread where that is allowed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::classify;
use super::tail::{self, Tail};
use crate::SinkError;

/// A file that is open for appending.
#[derive(Debug)]
pub(super) struct Target {
    file: File,
    sync: bool,
}

impl Target {
    /// Opens or creates the file, locks it, and repairs its end.
    ///
    /// # Errors
    /// `Unavailable` while another writer has the file; else as the I/O error says.
    pub(super) fn open(path: &Path, sync: bool) -> Result<Self, SinkError> {
        look_at(path)?;
        let failed = |verb| move |error| classify::error(verb, path, error);
        let existed = path.exists();
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(classify::in_use(path)),
            Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        let mut target = Self { file, sync };
        target.repair(path)?;
        if sync && !existed {
            // Without this a crash could lose the file's name, though not its content.
            let directory = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))
                .and_then(|directory| directory.sync_all())
                .map_err(failed("sync the directory of"))?;
        }
        Ok(target)
    }

    /// Whether the path still leads to this file: not after it was moved or deleted.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        match (self.file.metadata(), fs::metadata(path)) {
            (Ok(here), Ok(there)) => (here.dev(), here.ino()) == (there.dev(), there.ino()),
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    /// Appends whole lines, and syncs them if so configured. If that fails, the file is
    /// cut back to what it was.
    ///
    /// # Errors
    /// As the I/O error says. The target must not be used any further: what could not
    /// be cut back is repaired by the next opening.
    pub(super) fn append(&mut self, path: &Path, lines: &[u8]) -> Result<(), SinkError> {
        let failed = |error| classify::error("write to", path, error);
        let before = self.file.metadata().map_err(failed)?.len();
        if let Err(error) = self.write(lines) {
            drop(
                self.file
                    .set_len(before)
                    .and_then(|()| self.file.sync_all()),
            );
            return Err(failed(error));
        }
        // Deleted while it was written, the lines are gone with it.
        match self.file.metadata() {
            Ok(now) if now.nlink() > 0 => Ok(()),
            Ok(_) => Err(failed(io::Error::other("it was deleted meanwhile"))),
            Err(error) => Err(failed(error)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        if self.sync {
            self.file.sync_data()
        } else {
            Ok(())
        }
    }

    fn repair(&mut self, path: &Path) -> Result<(), SinkError> {
        let repaired = self
            .file
            .metadata()
            .and_then(|now| tail::look(&self.file, now.len()));
        let repaired = repaired.and_then(|tail| match tail {
            Tail::Clean => Ok(true),
            Tail::Unfinished => self.write(b"\n").map(|()| true),
            Tail::Torn { from } => self.file.set_len(from).map(|()| true),
            Tail::Foreign => Ok(false),
        });
        match repaired {
            Ok(true) => Ok(()),
            Ok(false) => Err(classify::foreign(path)),
            Err(error) => Err(classify::error("repair the end of", path, error)),
        }
    }
}

/// Asks whether the file could be appended to. Creates nothing, so of a file that does
/// not exist yet only its directory is known.
///
/// # Errors
/// What stands in the way.
pub(super) fn probe(path: &Path) -> Result<(), SinkError> {
    look_at(path)?;
    match OpenOptions::new().read(true).append(true).open(path) {
        Ok(_file) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(classify::error("open", path, error)),
    }
}

/// Refuses what is no regular file, and a directory that does not exist.
fn look_at(path: &Path) -> Result<(), SinkError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) if found.is_dir() => Err(classify::error(
            "open",
            path,
            io::ErrorKind::IsADirectory.into(),
        )),
        Ok(_) => Err(classify::no_file(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            match fs::metadata(parent.unwrap_or(Path::new("."))) {
                Ok(directory) if directory.is_dir() => Ok(()),
                Ok(_) => Err(classify::error(
                    "open",
                    path,
                    io::ErrorKind::NotADirectory.into(),
                )),
                Err(error) => Err(classify::error("open", path, error)),
            }
        }
        Err(error) => Err(classify::error("open", path, error)),
    }
}
