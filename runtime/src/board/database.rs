//! What was last heard from the database, by the task that looks at the head.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// An answer counts as lately given for so long after the next look was due.
const LATELY: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct DatabasePage(Mutex<Heard>);

#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    answered_at: Option<Instant>,
    failed: bool,
}

/// What was last heard from the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseView {
    /// How long ago it answered; `None` if it never did.
    pub answered: Option<Duration>,
    /// Whether that is lately enough to be sure of it.
    pub lately: bool,
    /// Whether it answered the last question, and lately.
    pub reachable: bool,
}

impl DatabasePage {
    pub(super) fn heard(&self, answered: bool) {
        let mut heard = self.lock();
        heard.failed = !answered;
        if answered {
            heard.answered_at = Some(Instant::now());
        }
    }

    /// `interval` is the longest pause between two questions.
    pub(super) fn look(&self, interval: Duration) -> DatabaseView {
        let heard = *self.lock();
        let answered = heard.answered_at.map(|at| at.elapsed());
        let lately = answered.is_some_and(|ago| ago <= interval + LATELY);
        DatabaseView {
            answered,
            lately,
            reachable: lately && !heard.failed,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_a_while_and_a_failure_at_once() {
        let (page, interval) = (DatabasePage::default(), Duration::from_secs(1));
        let look = || page.look(interval);
        assert_eq!(
            (look().lately, look().reachable),
            (false, false),
            "never asked"
        );
        page.heard(true);
        assert_eq!((look().lately, look().reachable), (true, true));
        page.heard(false);
        assert_eq!((look().lately, look().reachable), (true, false));
        page.heard(true);
        // It hangs: there is neither an answer nor a failure.
        tokio::time::advance(Duration::from_secs(12)).await;
        assert_eq!((look().lately, look().reachable), (false, false));
        assert_eq!(look().answered, Some(Duration::from_secs(12)));
    }
}
