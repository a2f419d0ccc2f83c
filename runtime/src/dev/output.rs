//! The output file: fresh for each run, and nobody's file destroyed for it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::{DevError, verify};

/// The longest first line that is looked at: an event is at most 64 KiB, and its
/// `sequence`.
const LONGEST_LINE: u64 = 80 * 1024;

/// Makes sure that the file can be made, and removes the one of an earlier run.
/// Returns its absolute path.
///
/// # Errors
/// [`DevError::Output`] if there is something else in its place.
pub(super) fn prepare(path: &Path) -> Result<PathBuf, DevError> {
    let path = std::path::absolute(path).map_err(DevError::file("find", path))?;
    match is_replaceable(&path) {
        Ok(true) => fs::remove_file(&path).map_err(DevError::file("replace", &path))?,
        Ok(false) => return Err(DevError::Output(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(DevError::file("read", &path)(error)),
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(DevError::file("create the folder", folder))?;
    }
    Ok(path)
}

/// Whether it is empty, or begins with an event: then it was an output before.
fn is_replaceable(path: &Path) -> io::Result<bool> {
    if !path.symlink_metadata()?.is_file() {
        return Ok(false);
    }
    let mut line = Vec::new();
    BufReader::new(File::open(path)?.take(LONGEST_LINE)).read_until(b'\n', &mut line)?;
    Ok(line.is_empty() || verify::is_event(&line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const EVENT: &str =
        "{\"id\":\"evt_01k5y3v0m6y8x7w5t4s3r2p1n0\",\"data\":{},\"sequence\":\"7.1\"}\n";

    #[test]
    fn the_output_of_an_earlier_run_is_replaced_and_missing_folders_are_made() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a/b/events.ndjson");
        prepare(&path).unwrap();
        for text in [EVENT, ""] {
            fs::write(&path, text).unwrap();
            prepare(&path).unwrap();
            assert!(!path.exists(), "{text:?}");
        }
    }

    #[test]
    fn a_file_or_folder_that_is_no_output_is_refused_and_left_as_it_was() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("notes.txt");
        fs::write(&path, "call the dentist\n").unwrap();
        let said = prepare(&path).unwrap_err().to_string();
        assert!(
            said.contains("notes.txt") && said.contains("--output"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "call the dentist\n");
        assert!(prepare(dir.path()).is_err());
    }
}
