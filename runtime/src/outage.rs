//! Logging a long outage: when it starts, when its reason changes and when it
//! ends, and not at every attempt.

use std::time::Duration;

use tokio::time::Instant;

/// The trouble that something is in, if any.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    since: Instant,
    reason: String,
}

/// What there is to say about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It is the first one.
    Started,
    /// The reason is another than before.
    Changed,
    /// The same again: say nothing.
    Same,
}

impl Outage {
    /// Takes note of a failure and tells whether it is news.
    pub(crate) fn failed(&mut self, reason: &str) -> News {
        match &mut self.current {
            None => {
                self.current = Some(Current {
                    since: Instant::now(),
                    reason: reason.to_owned(),
                });
                News::Started
            }
            Some(current) if current.reason == reason => News::Same,
            Some(current) => {
                reason.clone_into(&mut current.reason);
                News::Changed
            }
        }
    }

    /// Takes note of a success, and tells how long the outage that ends here took.
    pub(crate) fn ended(&mut self) -> Option<Duration> {
        self.current.take().map(|current| current.since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_news_when_it_starts_changes_and_ends() {
        let mut outage = Outage::default();
        assert_eq!(outage.ended(), None);
        assert_eq!(outage.failed("refused"), News::Started);
        assert_eq!(outage.failed("refused"), News::Same);
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(outage.failed("timed out"), News::Changed);
        assert_eq!(outage.ended(), Some(Duration::from_secs(7)));
        assert_eq!(outage.ended(), None);
    }
}
