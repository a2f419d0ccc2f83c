//! A look at the batch that comes next, for a sink that begins with it early.

use std::fmt;
use std::future::pending;
use std::pin::Pin;

use crate::Batch;

/// The batch that comes after the one that is being delivered, as soon as it is there.
///
/// What a sink makes of it is told in [`Sink::deliver_ahead`](crate::Sink::deliver_ahead).
///
/// ```
/// use outbox_sinks::{Batch, Event, Position, Upcoming};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let event = Event::new(Position::new(1, 1), "a.b", "{}");
/// let batch = Batch::new(vec![event]).expect("one event");
/// let mut next = Upcoming::new(async move { batch });
/// assert_eq!(next.batch().await.len(), 1);
/// # });
/// ```
pub struct Upcoming<'a>(Option<Pin<Box<dyn Future<Output = Batch> + Send + 'a>>>);

impl<'a> Upcoming<'a> {
    /// What comes next once this future is ready.
    pub fn new(coming: impl Future<Output = Batch> + Send + 'a) -> Self {
        Self(Some(Box::pin(coming)))
    }

    /// Nothing comes, or nothing that may be begun with yet.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Waits for the batch. Whoever has it is taken to have begun with it. Pends for ever
    /// where nothing comes, and after it was given once. Cancelling the call loses nothing.
    pub async fn batch(&mut self) -> Batch {
        let Some(coming) = &mut self.0 else {
            return pending().await;
        };
        let batch = coming.as_mut().await;
        self.0 = None;
        batch
    }
}

impl fmt::Debug for Upcoming<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upcoming")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use outbox::{Event, Position};
    use tokio::time::timeout;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(10);

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_given_once() {
        let batch = Batch::new(vec![Event::new(Position::new(1, 1), "a.b", "{}")]).unwrap();
        let mut next = Upcoming::new(async move {
            tokio::time::sleep(MOMENT * 2).await;
            batch
        });
        assert!(
            timeout(MOMENT, next.batch()).await.is_err(),
            "not there yet"
        );
        assert_eq!(timeout(MOMENT * 2, next.batch()).await.unwrap().len(), 1);
        assert!(timeout(MOMENT, next.batch()).await.is_err(), "given");
        assert!(timeout(MOMENT, Upcoming::none().batch()).await.is_err());
    }
}
