//! Standard output, whose reader may have seen enough.

use std::io::{self, ErrorKind, Write};

/// Writes results. When the reader has closed its end, as `head` does, the rest is
/// dropped without a word, and the exit status still tells how the command went.
pub(super) struct Results<W>(pub(super) W);

impl<W: Write> Write for Results<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_is_no_failure() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut results = Results(writer);
        results.write_all(b"more").unwrap();
        results.flush().unwrap();
    }
}
