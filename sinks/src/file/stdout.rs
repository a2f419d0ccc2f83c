//! The sink `stdout`: lines to standard output.
//!
//! Delivered means handed to whoever reads it. Nothing is known about what the reader
//! does, so this is for looking and for pipes, not for keeping.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use async_trait::async_trait;
use tokio::task::spawn_blocking;

use super::classify;
use super::lines::Lines;
use crate::{Batch, Connector, Delivery, Session, Sink, SinkError};

#[derive(Debug)]
pub(super) struct StdoutConnector {
    lines: Lines,
}

impl StdoutConnector {
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines }
    }
}

#[async_trait]
impl Connector for StdoutConnector {
    async fn probe(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn open(&self, _session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(LineSink {
            lines: self.lines.clone(),
            torn: false,
            output: standard_output,
        }))
    }
}

/// Standard output without the library's buffer, which would keep what failed and
/// write it later.
fn standard_output() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

struct LineSink<F> {
    lines: Lines,
    /// Whether a failed write may have left half a line.
    torn: bool,
    output: F,
}

#[async_trait]
impl<F> Sink for LineSink<F>
where
    F: Fn() -> io::Result<File> + Send + Sync,
{
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let mut output = (self.output)().map_err(classify::stdout)?;
        let encoded = self.lines.encode(batch);
        let mut bytes = encoded.bytes;
        if self.torn {
            bytes.insert(0, b'\n');
        }
        // Until the write is known to be whole: this call may also be dropped.
        self.torn = true;
        spawn_blocking(move || output.write_all(&bytes))
            .await?
            .map_err(classify::stdout)?;
        self.torn = false;
        Ok(encoded.delivery)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, ErrorKind, Event, Format, Position};

    fn batch() -> Batch {
        let event = Event::new(Position::new(1, 1), "a.b", r#"{"id":"e","type":"a.b"}"#);
        Batch::new(vec![event]).unwrap()
    }

    #[tokio::test]
    async fn a_line_after_a_failed_write_begins_on_its_own() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let mut sink = LineSink {
            lines: Lines::new(Encoder::new(Format::Native, "/")),
            torn: true,
            output: move || File::options().append(true).open(&path),
        };
        sink.deliver(&batch()).await.unwrap();
        sink.deliver(&batch()).await.unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(
            text.lines().map(str::is_empty).collect::<Vec<_>>(),
            [true, false, false]
        );
    }

    #[tokio::test]
    async fn a_full_device_is_an_outage() {
        let mut sink = LineSink {
            lines: Lines::new(Encoder::new(Format::Native, "/")),
            torn: false,
            output: || File::options().append(true).open("/dev/full"),
        };
        let error = sink.deliver(&batch()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
}
