//! What librdkafka reports, counted between its polling thread and the delivery.
//!
//! Each message that was handed over is reported exactly once. A success costs one
//! atomic subtraction; only failures are written down. When nothing is pending,
//! every message without a failure is acknowledged.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::classify::{Class, classify_code};

/// The reports of one producer.
#[derive(Default)]
pub(super) struct Reports {
    pending: AtomicUsize,
    /// The delivery wants to be woken when no more than this many are pending.
    wake_at: AtomicUsize,
    troubled: AtomicBool,
    failures: Mutex<Vec<(usize, KafkaError)>>,
    condition: Mutex<Option<Condition>>,
    changed: Notify,
}

/// What the client says of itself, apart from any message.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) code: RDKafkaErrorCode,
    /// librdkafka's words, without secrets.
    pub(super) reason: String,
}

impl Reports {
    /// Notes that a message is about to be handed over.
    pub(super) fn expect(&self) {
        self.pending.fetch_add(1, SeqCst);
    }

    /// Notes that it was not taken after all.
    pub(super) fn expect_not(&self) {
        self.pending.fetch_sub(1, SeqCst);
    }

    /// Counts one report. Called on the polling thread.
    pub(super) fn count(&self, index: usize, failure: Option<&KafkaError>) {
        if let Some(error) = failure {
            locked(&self.failures).push((index, error.clone()));
            self.trouble();
        }
        let left = self.pending.fetch_sub(1, SeqCst) - 1;
        if left <= self.wake_at.load(SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Notes the client's own condition, unless it tells less than the one before.
    pub(super) fn condition(&self, code: RDKafkaErrorCode, reason: String) {
        let mut condition = locked(&self.condition);
        let known = condition.as_ref().map(|known| telling(known.code));
        if known.is_none_or(|known| known <= telling(code)) {
            *condition = Some(Condition { code, reason });
        }
    }

    /// Makes the delivery stop. Called on the polling thread.
    pub(super) fn trouble(&self) {
        if !self.troubled.swap(true, SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Whether any message has failed, or the producer as a whole.
    pub(super) fn is_troubled(&self) -> bool {
        self.troubled.load(SeqCst)
    }

    /// How many messages are not reported yet.
    pub(super) fn pending(&self) -> usize {
        self.pending.load(SeqCst)
    }

    /// Waits until at most `most` are pending, or the deadline is over; also until
    /// there is trouble, if that is to be heeded.
    pub(super) async fn wait(&self, most: usize, heed_trouble: bool, deadline: Instant) -> Waited {
        self.wake_at.store(most, SeqCst);
        let waited = loop {
            if self.pending() <= most {
                break Waited::Done;
            }
            if heed_trouble && self.is_troubled() {
                break Waited::Troubled;
            }
            if timeout_at(deadline, self.changed.notified()).await.is_err() {
                break Waited::Late;
            }
        };
        self.wake_at.store(0, SeqCst);
        waited
    }

    pub(super) fn take_failures(&self) -> Vec<(usize, KafkaError)> {
        std::mem::take(&mut *locked(&self.failures))
    }

    pub(super) fn take_condition(&self) -> Option<Condition> {
        locked(&self.condition).take()
    }
}

/// How much a condition tells. A wrong password is followed by a lost connection, and
/// that by the news that all connections are lost.
fn telling(code: RDKafkaErrorCode) -> u8 {
    match classify_code(code) {
        Class::Misconfigured(_) | Class::Fenced => 2,
        _ if code == RDKafkaErrorCode::AllBrokersDown => 0,
        Class::Unavailable | Class::Refused(_) | Class::TooLarge | Class::Failed => 1,
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// No more than wanted are pending.
    Done,
    /// A message has failed, or the producer as a whole.
    Troubled,
    /// The deadline is over.
    Late,
}

/// No code that holds one of these locks can panic halfway through a change.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
