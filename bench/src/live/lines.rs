//! Sinks that write files: the cheapest destination, so that the relay itself is what is seen.
//!
//! `sync = false`, since the flushing of thirty files would be most of what they cost.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use outbox_tests::servers::Database;
use tokio::time::{Instant, sleep};

use super::publisher::number_in;
use crate::worker::{Setup, Worker};

const PATIENCE: Duration = Duration::from_secs(30);

/// A worker with sinks that write files.
#[derive(Debug)]
pub(super) struct Lines {
    /// The process.
    pub(super) worker: Worker,
    files: Vec<PathBuf>,
    // Declared last: the folder goes when the worker has ended.
    _setup: Setup,
}

impl Lines {
    /// Starts a worker with so many sinks, whose names begin with `name`.
    ///
    /// # Errors
    /// If the program can't be started.
    pub(super) fn start(database: &Database, name: &str, sinks: usize) -> Result<Self> {
        let names: Vec<_> = (1..=sinks).map(|i| format!("{name}-{i}")).collect();
        let table = |name: &String| {
            format!("[sinks.{name}.file]\npath = \"{name}.ndjson\"\nsync = false\n")
        };
        let tables: String = names.iter().map(table).collect();
        let setup = Setup::new(database, &tables)?;
        let file = |name: &String| setup.folder().join(format!("{name}.ndjson"));
        Ok(Self {
            worker: setup.run()?,
            files: names.iter().map(file).collect(),
            _setup: setup,
        })
    }

    /// Waits until every file holds so many events, each after its predecessors of the same key.
    ///
    /// # Errors
    /// If one doesn't in time.
    pub(super) async fn until_complete(&mut self, events: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for file in &self.files {
            loop {
                let in_order = in_order(&std::fs::read(file).unwrap_or_default());
                if in_order == events {
                    break;
                }
                self.worker.pid()?;
                let file = file.display();
                ensure!(
                    Instant::now() < deadline,
                    "{file} holds {in_order} of {events} events in order"
                );
                sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }
}

/// How many events there are that come after none with a higher number of the same key. It is
/// the number of all events if none is missing and none came late; a second time counts nothing.
fn in_order(lines: &[u8]) -> usize {
    let mut last: HashMap<&[u8], u32> = HashMap::new();
    let mut count = 0;
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        if !line.ends_with(b"\n") {
            continue;
        }
        let (Some(key), Some(number)) = (subject_in(line), number_in(line)) else {
            continue;
        };
        let rises = last.get(key).is_none_or(|&last| last < number);
        if rises {
            last.insert(key, number);
            count += 1;
        }
    }
    count
}

fn subject_in(line: &[u8]) -> Option<&[u8]> {
    const BEFORE: &[u8] = b"\"subject\": \"";
    let at = line
        .windows(BEFORE.len())
        .position(|window| window == BEFORE)?;
    let rest = line.get(at + BEFORE.len()..)?;
    rest.split(|&byte| byte == b'"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &str, number: u32) -> String {
        format!("{{\"data\": {{\"n\": {number}}}, \"subject\": \"{key}\"}}\n")
    }

    #[test]
    fn what_comes_late_or_twice_is_not_counted() {
        let lines = |events: &[(&str, u32)]| -> String {
            events
                .iter()
                .map(|(key, number)| line(key, *number))
                .collect()
        };
        let count = |events| in_order(lines(events).as_bytes());
        assert_eq!(count(&[("a", 1), ("b", 1), ("a", 2)]), 3);
        assert_eq!(count(&[("a", 1), ("a", 3), ("a", 2)]), 2, "one came late");
        assert_eq!(count(&[("a", 1), ("a", 2), ("a", 1), ("a", 2)]), 2, "twice");
    }

    #[test]
    fn a_line_that_is_not_finished_is_not_there() {
        assert_eq!(in_order(line("a", 1).trim_end().as_bytes()), 0);
    }
}
