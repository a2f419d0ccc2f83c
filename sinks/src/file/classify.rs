//! What an I/O error means for the runtime: one match, one table.
//!
//! The guide `docs/sinks/file.md` prints the same table, and a test compares them.

use std::io::{self, ErrorKind as Io};
use std::path::Path;

use crate::{ErrorKind, SinkError};

use ErrorKind::{Misconfigured, Unavailable};

/// The class of an I/O error, and what an operator can do about it.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the standard library's list of errors is open"
)]
fn classify(kind: Io) -> (ErrorKind, &'static str) {
    match kind {
        Io::StorageFull | Io::QuotaExceeded => (Unavailable, "free some space"),
        Io::FileTooLarge => (
            Misconfigured,
            "move the file away: it reached the largest size allowed",
        ),
        Io::PermissionDenied => (
            Misconfigured,
            "let this process's user write to the file and its directory",
        ),
        Io::ReadOnlyFilesystem => (
            Misconfigured,
            "mount the file system for writing, or change path",
        ),
        Io::NotFound => (
            Misconfigured,
            "create the directory: it is not created by itself, lest a volume that is not mounted goes unnoticed",
        ),
        Io::IsADirectory | Io::NotADirectory | Io::InvalidFilename => {
            (Misconfigured, "change path to that of a file")
        }
        Io::BrokenPipe => (
            Misconfigured,
            "nobody reads standard output any more: start again with a reader",
        ),
        _ => (Unavailable, "tried again; the error's text says more"),
    }
}

/// An I/O error on a file; `verb` says what was tried.
pub(super) fn error(verb: &str, path: &Path, cause: io::Error) -> SinkError {
    named(&format!("{verb} {}", path.display()), cause)
}

/// An I/O error on standard output.
pub(super) fn stdout(cause: io::Error) -> SinkError {
    named("write to standard output", cause)
}

fn named(what: &str, cause: io::Error) -> SinkError {
    let (kind, advice) = classify(cause.kind());
    SinkError::new(kind, what)
        .with_advice(advice)
        .with_source(cause)
}

const IN_USE: &str = "another process writes to this file: give each its own";
const FOREIGN: &str = "the file ends with something this sink never writes: is path right?";
const NO_FILE: &str = "path leads to a device or a pipe: use the sink stdout, or change path";
const HANGS: &str = "look at the disk or the network mount: it does not answer";
const STALLED: &str = "let the reader read on, or start again with one that does";

/// Another writer holds the lock. It may be an earlier worker that is about to end.
pub(super) fn in_use(path: &Path) -> SinkError {
    SinkError::unavailable(format!("lock {}", path.display())).with_advice(IN_USE)
}

/// An earlier call on the file has not come back.
pub(super) fn hangs(path: &Path) -> SinkError {
    SinkError::unavailable(format!(
        "an earlier call on {} has not come back",
        path.display()
    ))
    .with_advice(HANGS)
}

/// An earlier write to standard output has not come back.
pub(super) fn stalled() -> SinkError {
    SinkError::unavailable("standard output is stalled: its reader does not read")
        .with_advice(STALLED)
}

/// The file is not one of ours.
pub(super) fn foreign(path: &Path) -> SinkError {
    SinkError::misconfigured(format!("read the end of {}", path.display()), FOREIGN)
}

/// The path leads to no regular file.
pub(super) fn no_file(path: &Path) -> SinkError {
    SinkError::misconfigured(format!("open {}", path.display()), NO_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = include_str!("../../../docs/sinks/file.md");

    const TABLE: &[(&str, &[Io], ErrorKind)] = &[
        (
            "disk full, quota reached",
            &[Io::StorageFull, Io::QuotaExceeded],
            Unavailable,
        ),
        ("file too large", &[Io::FileTooLarge], Misconfigured),
        ("permission denied", &[Io::PermissionDenied], Misconfigured),
        (
            "read-only file system",
            &[Io::ReadOnlyFilesystem],
            Misconfigured,
        ),
        ("no such directory", &[Io::NotFound], Misconfigured),
        (
            "not a file's path",
            &[Io::IsADirectory, Io::NotADirectory, Io::InvalidFilename],
            Misconfigured,
        ),
        ("pipe closed (`stdout`)", &[Io::BrokenPipe], Misconfigured),
        (
            "any other I/O error",
            &[Io::Other, Io::TimedOut, Io::StaleNetworkFileHandle],
            Unavailable,
        ),
    ];

    fn assert_row(name: &str, kind: ErrorKind, advice: &str) {
        let row = format!("| {name} | {kind} | {advice} |");
        assert!(GUIDE.contains(&row), "the guide lacks this row:\n{row}");
    }

    #[test]
    fn the_guide_has_the_same_table() {
        for &(name, kinds, expected) in TABLE {
            for &kind in kinds {
                let (class, advice) = classify(kind);
                assert_eq!(class, expected, "{kind:?}");
                assert_row(name, class, advice);
            }
        }
        let path = Path::new("x");
        for (name, error) in [
            ("file locked", in_use(path)),
            ("file of somebody else", foreign(path)),
            ("not a regular file", no_file(path)),
            ("file's disk or mount hangs", hangs(path)),
            ("reader stalled (`stdout`)", stalled()),
        ] {
            assert_row(name, error.kind(), error.advice().unwrap());
        }
    }
}
