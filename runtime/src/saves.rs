//! Saving cursors: what several loops have to write at about the same time and is nothing
//! but a move goes to the database as one statement.
//!
//! Guards OB-1 with the loops: what belongs to another history is not written, also when
//! that changed while the move waited for its turn.

use std::sync::Arc;
use std::time::Duration;

use outbox::Advance;
use tokio::time::Instant;

use crate::grid::Grid;
use crate::store::{Store, StoreError};
use crate::together::Together;

/// Saves the cursors of a process.
#[derive(Debug)]
pub struct Saves {
    together: Together<Save>,
    /// When what was delivered is due to be written.
    moments: Grid,
    interval: Duration,
}

/// A move that was read in this history.
#[derive(Debug)]
struct Save {
    history: u64,
    advance: Advance,
}

impl Saves {
    /// Saves at the latest `interval` after a delivery.
    #[must_use]
    pub fn start<S: Store>(store: Arc<S>, interval: Duration) -> Arc<Self> {
        let together = Together::start("saves", move |saves: Vec<Save>| {
            let store = Arc::clone(&store);
            async move { advance(&*store, &saves).await }
        });
        Arc::new(Self {
            together,
            moments: Grid::new(Instant::now(), interval),
            interval,
        })
    }

    /// How long what was delivered may wait; zero: not at all.
    pub(crate) const fn interval(&self) -> Duration {
        self.interval
    }

    /// By when what is delivered now has to be written: the same moment for all loops.
    pub(crate) fn due_at(&self) -> Instant {
        self.moments.after(Instant::now())
    }

    /// Moves a cursor of this history, if that is all there is to write. If it was not
    /// moved, a settlement says why.
    pub(crate) async fn save(&self, history: u64, advance: Advance) -> Result<bool, StoreError> {
        self.together.ask(Save { history, advance }).await
    }
}

async fn advance<S: Store>(store: &S, saves: &[Save]) -> Result<Vec<bool>, StoreError> {
    let history = store.history();
    let current = |save: &&Save| save.history == history;
    let moves: Vec<_> = saves.iter().filter(current).collect();
    let moves: Vec<_> = moves.into_iter().map(|it| it.advance.clone()).collect();
    if moves.is_empty() {
        return Ok(vec![false; saves.len()]);
    }
    let mut moved = store.advance(&moves).await?.into_iter();
    let is_moved = |save: &Save| current(&save) && moved.next().unwrap_or_default();
    Ok(saves.iter().map(is_moved).collect())
}
