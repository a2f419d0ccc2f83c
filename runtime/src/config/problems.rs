//! What is wrong with a configuration: all of it at once, each with its place.
//!
//! A problem names the key and what to write instead. It never repeats a value,
//! and no line of the file either: both may hold a secret.

use std::fmt;

/// Everything that is wrong with a configuration file, in the file's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    file: String,
    list: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where, if it has a place in the file.
    pub place: Option<Place>,
    /// The dotted key, for example `sinks.orders.batch.max_events`; may be empty.
    pub key: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

/// A place in a file; both numbers count from 1, and columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Problems {
    /// Collects the problems of this file.
    pub(super) fn of(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            list: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        place: Option<Place>,
        key: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.list.push(Problem {
            place,
            key: key.into(),
            message: message.into(),
        });
    }

    /// The value if nothing is wrong.
    pub(super) fn check<T>(mut self, value: Option<T>) -> Result<T, Self> {
        self.list.sort();
        self.list.dedup();
        match value {
            Some(value) if self.list.is_empty() => Ok(value),
            _ => Err(self),
        }
    }

    /// The problems, in the file's order.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// One line a problem: `sinks.toml:12:1: sinks.orders.batch_size: unknown key`.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.file)?;
            if let Some(Place { line, column }) = problem.place {
                write!(f, ":{line}:{column}")?;
            }
            if !problem.key.is_empty() {
                write!(f, ": {}", problem.key)?;
            }
            write!(f, ": {}", problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
