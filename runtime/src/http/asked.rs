//! A question to the database that many may put and that is asked seldom.
//!
//! Within a few seconds everybody gets the same answer, and a failure counts as one: while
//! the database is away nobody waits for it again and again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(5);
/// How long anybody waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// A question and its last answer.
#[derive(Debug)]
pub(super) struct Asked<T>(Mutex<Option<Last<T>>>);

#[derive(Debug)]
struct Last<T> {
    at: Instant,
    answer: Option<Arc<T>>,
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Asked<T> {
    /// The answer, if there is one within a moment. One asks at a time.
    pub(super) async fn answer<E>(
        &self,
        ask: impl Future<Output = Result<T, E>>,
    ) -> Option<Arc<T>> {
        let until = Instant::now() + PATIENCE;
        let mut last = tokio::time::timeout_at(until, self.0.lock()).await.ok()?;
        if let Some(last) = &*last
            && last.at.elapsed() < FRESH
        {
            return last.answer.clone();
        }
        // Noted before it is known: who goes away meanwhile has asked all the same, and the
        // next one is not to ask again at once.
        *last = Some(Last {
            at: Instant::now(),
            answer: None,
        });
        let asked = timeout(until - Instant::now(), ask).await;
        let answer = asked.ok().and_then(Result::ok).map(Arc::new);
        *last = Some(Last {
            at: Instant::now(),
            answer: answer.clone(),
        });
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::time::{advance, sleep};

    #[tokio::test(start_paused = true)]
    async fn everybody_gets_the_same_answer_for_a_while() {
        let (question, times) = (Asked::default(), Cell::new(0));
        let ask = async || {
            times.set(times.get() + 1);
            Ok::<_, ()>(times.get())
        };
        assert_eq!(question.answer(ask()).await.as_deref(), Some(&1));
        advance(Duration::from_millis(4_900)).await;
        assert_eq!(question.answer(ask()).await.as_deref(), Some(&1));
        advance(Duration::from_millis(200)).await;
        assert_eq!(question.answer(ask()).await.as_deref(), Some(&2));
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_is_waited_for_once_and_forgotten_soon() {
        let question = Asked::default();
        let began = Instant::now();
        let never = async || {
            sleep(Duration::from_secs(3_600)).await;
            Ok::<_, ()>(1)
        };
        assert_eq!(question.answer(never()).await, None);
        assert_eq!(began.elapsed(), PATIENCE);
        // An old answer is not given in place of a failure, nor is the failure waited for again.
        assert_eq!(question.answer(never()).await, None);
        assert_eq!(began.elapsed(), PATIENCE);
        advance(FRESH).await;
        let there = std::future::ready(Ok::<_, ()>(2));
        assert_eq!(question.answer(there).await.as_deref(), Some(&2));
        advance(FRESH).await;
        let failed = std::future::ready(Err::<i32, _>(()));
        assert_eq!(question.answer(failed).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_before_the_answer_has_asked_all_the_same() {
        let question = Asked::default();
        let slow = async {
            sleep(Duration::from_secs(1)).await;
            Ok::<_, ()>(1)
        };
        let impatient = timeout(Duration::from_millis(10), question.answer(slow)).await;
        assert!(impatient.is_err());
        let not_asked = async { panic!("the database is asked again at once") };
        assert_eq!(question.answer::<()>(not_asked).await, None::<Arc<i32>>);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_at_the_same_time_wait_no_longer_than_the_first() {
        let question = Asked::default();
        let began = Instant::now();
        let slow = || async {
            sleep(Duration::from_secs(3_600)).await;
            Ok::<_, ()>(1)
        };
        let both = tokio::join!(question.answer(slow()), question.answer(slow()));
        assert_eq!((both, began.elapsed()), ((None, None), PATIENCE));
    }
}
