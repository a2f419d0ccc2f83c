//! What the process is doing, told by those who do it and kept in memory.
//!
//! Each loop has a page of its own on the board, and nobody else writes it. Counters count
//! what the destination has acknowledged and what the database has written, never what was
//! only tried. Looking at the board asks nobody: it answers while the database is away.
//! Nothing is decided by what is on it, and none of it survives the process.

mod counters;
mod database;
mod page;
mod ready;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

pub use counters::{Counters, Histograms, OfClosing, OfOutcome, OfSink};
pub use database::DatabaseView;
pub use page::{CallView, Page, PageView};
pub use ready::NotReady;
pub use state::{Call, Outcome, State};

use database::DatabasePage;

/// What the process is doing.
#[derive(Debug)]
pub struct Board {
    limits: Limits,
    began_at: Instant,
    database: DatabasePage,
    counters: Counters,
    pages: Mutex<BTreeMap<String, Arc<Page>>>,
}

/// How long things may take before they count as stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest that one call to the database takes: its own deadlines end it.
    pub database_call: Duration,
    /// The longest pause between two looks at the head while nothing happens.
    pub head_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            database_call: Duration::from_secs(60),
            head_interval: Duration::from_millis(250),
        }
    }
}

impl Board {
    /// An empty board.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            began_at: Instant::now(),
            database: DatabasePage::default(),
            counters: Counters::default(),
            pages: Mutex::default(),
        }
    }

    /// The page of a sink; `kind` is that of its destination, for example `kafka`.
    pub fn announce(&self, sink: &str, kind: &str) -> Arc<Page> {
        let mut pages = self.pages();
        if let Some(page) = pages.get(sink) {
            return Arc::clone(page);
        }
        let counted = self.counters.of_sink(sink);
        let page = Arc::new(Page::new(kind, counted, self.limits.database_call));
        pages.insert(sink.to_owned(), Arc::clone(&page));
        page
    }

    /// What counts.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What every sink's loop is doing, by name.
    #[must_use]
    pub fn sinks(&self) -> Vec<(String, PageView)> {
        let pages = self.pages();
        let views = pages.iter().map(|(name, page)| (name.clone(), page.look()));
        views.collect()
    }

    /// What was last heard from the database.
    #[must_use]
    pub fn database(&self) -> DatabaseView {
        self.database.look(self.limits.head_interval)
    }

    /// For how long the process has been running.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.began_at.elapsed()
    }

    /// Why this process is not ready: empty if it is.
    #[must_use]
    pub fn not_ready(&self) -> Vec<NotReady> {
        ready::not_ready(&self.database(), &self.sinks())
    }

    /// Takes note of what a look at the head came to.
    pub(crate) fn looked_at_head(&self, answered: bool) {
        self.counters.head_polls.inc();
        if !answered {
            self.counters.head_poll_failures.inc();
        }
        self.database.heard(answered);
    }

    fn pages(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Page>>> {
        // Nothing that holds the lock can panic halfway through a change.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Board {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_has_one_page_however_often_it_is_announced() {
        let board = Board::default();
        let page = board.announce("b", "kafka");
        page.enter(State::Paused);
        board.announce("a", "file");
        assert_eq!(board.announce("b", "?").look().state, State::Paused);
        let names: Vec<_> = board.sinks().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
