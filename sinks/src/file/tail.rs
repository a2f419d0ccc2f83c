//! What stands after a file's last line end, and what to do about it.
//!
//! A crash in the middle of a write leaves half a line. Its event was never reported
//! as delivered and comes again, so the half can go. But a whole line that only lacks
//! its line end may be one that somebody's editor touched: that one is completed, and
//! at worst repeated.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::de::IgnoredAny;

/// How much is read at once while looking for the last line end.
const STEP: u64 = 64 * 1024;

/// What stands after the last line end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing: the file is empty or ends with a line end.
    Clean,
    /// A whole JSON object that lacks its line end.
    Unfinished,
    /// Half a line, from this offset on.
    Torn { from: u64 },
    /// Something that this sink never writes.
    Foreign,
}

/// Looks at the end of a file of this length.
pub(super) fn look(file: &File, length: u64) -> io::Result<Tail> {
    let mut tail = Vec::new();
    let mut start = length;
    while start > 0 {
        let from = start.saturating_sub(STEP);
        let mut piece = vec![0; usize::try_from(start - from).unwrap_or_default()];
        file.read_exact_at(&mut piece, from)?;
        let end = piece.iter().rposition(|byte| *byte == b'\n');
        let kept = piece.split_off(end.map_or(0, |at| at + 1));
        start -= kept.len() as u64;
        tail.splice(0..0, kept);
        if end.is_some() {
            break;
        }
    }
    Ok(judge(&tail, start))
}

fn judge(tail: &[u8], from: u64) -> Tail {
    match tail.first() {
        None => Tail::Clean,
        Some(b'{') if serde_json::from_slice::<IgnoredAny>(tail).is_ok() => Tail::Unfinished,
        // After a power failure a file system may show zeros for what was not synced.
        Some(b'{' | 0) => Tail::Torn { from },
        Some(_) => Tail::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn tail_of(content: &[u8]) -> Tail {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        look(&file, content.len() as u64).unwrap()
    }

    #[test]
    fn what_stands_after_the_last_line_end_is_told_apart() {
        assert_eq!(tail_of(b""), Tail::Clean);
        assert_eq!(tail_of(b"{}\n"), Tail::Clean);
        assert_eq!(tail_of(b"{}\n{\"a\":1}"), Tail::Unfinished);
        assert_eq!(tail_of(b"{}\n{\"a\":"), Tail::Torn { from: 3 });
        assert_eq!(tail_of(b"{\"a\":"), Tail::Torn { from: 0 });
        assert_eq!(tail_of(b"{}\n\0\0\0"), Tail::Torn { from: 3 });
        assert_eq!(tail_of(b"root:x:0:0"), Tail::Foreign);
    }

    #[test]
    fn a_torn_line_longer_than_one_step_is_found_from_its_beginning() {
        for length in [STEP - 4, STEP - 3, STEP, 3 * STEP + 7] {
            let mut content = b"{}\n".to_vec();
            content.push(b'{');
            content.resize(content.len() + usize::try_from(length).unwrap(), b'x');
            assert_eq!(tail_of(&content), Tail::Torn { from: 3 }, "{length}");
        }
    }
}
