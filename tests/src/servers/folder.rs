//! A folder for each server, below one folder for each test process.
//!
//! Shared servers live in statics, which Rust never drops, and a killed process drops nothing. So
//! a janitor, a small shell, waits for this process to end and then removes everything.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use super::installed::environment;

/// The user that servers which refuse root run as: nobody.
pub(super) const NOBODY: u32 = 65_534;

/// A server's folder, removed when dropped unless `OUTBOX_TESTS_KEEP` is set.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes an empty folder that this user alone, and root, can enter.
    pub(super) fn new(server: &str) -> Self {
        let path = tempfile::Builder::new()
            .prefix(&format!("{server}-"))
            .tempdir_in(root())
            .expect("a folder for a server can be made")
            .keep();
        Self { path }
    }

    /// Gives the folder to nobody.
    pub(super) fn give_to_nobody(&self) {
        chown(&self.path, Some(NOBODY), Some(NOBODY)).expect("root may give a folder away");
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if keep() {
            return;
        }
        // What a dying server still writes here is left to the janitor.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

fn keep() -> bool {
    environment("OUTBOX_TESTS_KEEP").is_some()
}

/// The folder of this process, with its janitor.
fn root() -> &'static Path {
    static ROOT: OnceLock<(PathBuf, Option<Child>)> = OnceLock::new();
    let (path, _janitor) = ROOT.get_or_init(|| {
        let path = tempfile::Builder::new()
            .prefix(&format!("outbox-tests-{}-", std::process::id()))
            .tempdir()
            .expect("the folder for temporary files can be written")
            .keep();
        // Servers run as nobody when root runs the tests: they must be able to pass through.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o711))
            .expect("a folder that was just made can be changed");
        let janitor = (!keep()).then(|| hire_janitor(&path));
        (path, janitor)
    });
    path
}

/// Starts a shell that waits until our end of its input closes, which no kind of death can
/// prevent. It is out of reach of a Ctrl-C, and of the servers, which do not inherit that end.
fn hire_janitor(path: &Path) -> Child {
    let script = "cat >/dev/null; for try in 1 2 3 4 5; do \
                  sleep 0.2; rm -rf -- \"$1\" && exit; sleep 1; done";
    Command::new("sh")
        .args(["-c", script, "janitor"])
        .arg(path)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh can be started")
}
