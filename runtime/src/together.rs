//! Calls that several loops make at about the same time, put to the database as one.
//!
//! Nobody waits for company: a call goes out at once, with whatever else is there by then,
//! and what comes while it is under way goes with the next one.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio_util::task::AbortOnDropHandle;

use crate::store::StoreError;
use crate::worker::supervised;

/// What was asked and not yet answered.
type Waiting<Q> = Vec<(Q, oneshot::Sender<Result<bool, StoreError>>)>;

/// Makes one call of many. Each asker has one question under way at most, so what waits is
/// bounded by the number of loops.
#[derive(Debug)]
pub(crate) struct Together<Q> {
    queue: Arc<Queue<Q>>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Queue<Q> {
    waiting: Mutex<Waiting<Q>>,
    news: Notify,
}

impl<Q: Send + 'static> Together<Q> {
    /// Starts to answer with `call`, which answers each question of several, in their order.
    pub(crate) fn start<F, Fut>(name: &str, call: F) -> Self
    where
        F: Fn(Vec<Q>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<bool>, StoreError>> + Send + 'static,
    {
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            news: Notify::new(),
        });
        let (asked, call) = (Arc::clone(&queue), Arc::new(call));
        let answering = supervised(name.to_owned(), move || {
            answer(Arc::clone(&asked), Arc::clone(&call))
        });
        #[expect(
            clippy::disallowed_methods,
            reason = "owned by those who ask, aborted with the last of them"
        )]
        let task = tokio::spawn(answering);
        Self {
            queue,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Asks one question.
    pub(crate) async fn ask(&self, question: Q) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.queue.waiting().push((question, answer));
        self.queue.news.notify_one();
        let lost = |_| StoreError::new("the call was given up");
        answered.await.map_err(lost)?
    }
}

impl<Q> Queue<Q> {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting<Q>> {
        // Nothing that holds the lock can panic halfway through a change.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer<Q, F, Fut>(queue: Arc<Queue<Q>>, call: Arc<F>)
where
    F: Fn(Vec<Q>) -> Fut,
    Fut: Future<Output = Result<Vec<bool>, StoreError>>,
{
    loop {
        queue.news.notified().await;
        // Those whose time came at the same moment are about to ask as well.
        yield_now().await;
        let waiting = std::mem::take(&mut *queue.waiting());
        // Whoever has left wants nothing any more.
        let here = waiting.into_iter().filter(|(_, to)| !to.is_closed());
        let (questions, askers): (Vec<_>, Vec<_>) = here.unzip();
        if questions.is_empty() {
            continue;
        }
        match call(questions).await {
            Ok(answers) => {
                for (asker, answer) in askers.into_iter().zip(answers) {
                    // Whoever has left meanwhile finds out otherwise.
                    drop(asker.send(Ok(answer)));
                }
            }
            Err(error) => {
                let reason = error.to_string();
                for asker in askers {
                    drop(asker.send(Err(StoreError::new(reason.clone()))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;
    use tokio::time::sleep;

    /// Says yes to even numbers, and counts the calls.
    fn even(calls: &Arc<AtomicUsize>) -> Together<u32> {
        let calls = Arc::clone(calls);
        Together::start("test", move |questions: Vec<u32>| {
            calls.fetch_add(1, Relaxed);
            async move {
                sleep(Duration::from_millis(10)).await;
                match questions.contains(&13) {
                    true => Err(StoreError::new("bad luck")),
                    false => Ok(questions.iter().map(|it| it % 2 == 0).collect()),
                }
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_at_once_is_one_call_and_each_gets_its_own_answer() {
        let calls = Arc::default();
        let even = even(&calls);
        let (one, two, three) = tokio::join!(even.ask(1), even.ask(2), even.ask(3));
        assert_eq!([one, two, three].map(Result::unwrap), [false, true, false]);
        assert_eq!(calls.load(Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_while_a_call_is_under_way_goes_with_the_next() {
        let calls = Arc::default();
        let even = even(&calls);
        let late = async {
            sleep(Duration::from_millis(5)).await;
            tokio::join!(even.ask(4), even.ask(5))
        };
        let (first, late) = tokio::join!(even.ask(2), late);
        assert!(first.unwrap() && late.0.unwrap() && !late.1.unwrap());
        assert_eq!(calls.load(Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_fails_fails_for_all_and_the_next_does_not() {
        let even = even(&Arc::default());
        let (one, two) = tokio::join!(even.ask(13), even.ask(2));
        assert!(one.unwrap_err().to_string() == "bad luck" && two.is_err());
        assert!(even.ask(2).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_left_is_not_asked_for() {
        let calls = Arc::default();
        let even = even(&calls);
        drop(tokio::time::timeout(Duration::ZERO, even.ask(13)).await);
        assert!(even.ask(2).await.unwrap());
        assert_eq!(calls.load(Relaxed), 1);
    }
}
