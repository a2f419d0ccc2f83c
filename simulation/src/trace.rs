//! What happened in a run, line by line. Only the end is kept: a failure shows there.

use std::collections::VecDeque;

/// How many lines are kept.
const KEPT: usize = 4_000;

/// The lines of a run, if they are wanted.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: Option<VecDeque<String>>,
}

impl Trace {
    pub(crate) fn new(on: bool) -> Self {
        Self {
            lines: on.then(VecDeque::new),
        }
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.lines.is_some()
    }

    pub(crate) fn add(&mut self, now: u64, who: &str, line: &str) {
        if let Some(lines) = &mut self.lines {
            if lines.len() == KEPT {
                lines.pop_front();
            }
            let (seconds, millis) = (now / 1_000, now % 1_000);
            lines.push_back(format!("{seconds:>5}.{millis:03} {who:<6} {line}"));
        }
    }

    /// The last lines.
    pub(crate) fn take_end(&mut self, wanted: usize) -> Vec<String> {
        let lines = self.lines.take().unwrap_or_default();
        let skipped = lines.len().saturating_sub(wanted);
        lines.into_iter().skip(skipped).collect()
    }
}
