//! What librdkafka reports, counted between its polling thread and the delivery.
//!
//! Each message that was handed over is reported exactly once. A success costs one
//! atomic subtraction; only failures are written down. When nothing of a batch is pending,
//! every message of it without a failure is acknowledged. At most two batches are under
//! way: the one that is delivered and the one that was begun ahead. They take turns with
//! two sides.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::classify::{Class, classify_code};

/// Which of the two batches that may be under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Side {
    #[default]
    Even,
    Odd,
}

/// A message that was handed over: its batch, and its index within that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) side: Side,
    pub(super) index: usize,
}

/// The reports of one producer.
#[derive(Default)]
pub(super) struct Reports {
    even: OfSide,
    odd: OfSide,
    /// The delivery wants to be woken when no more than this many of a side are pending.
    wake_at: AtomicUsize,
    failures: Mutex<Vec<(Ticket, KafkaError)>>,
    condition: Mutex<Option<Condition>>,
    changed: Notify,
}

/// What is counted of one batch.
#[derive(Default)]
struct OfSide {
    pending: AtomicUsize,
    troubled: AtomicBool,
}

impl Side {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Even => Self::Odd,
            Self::Odd => Self::Even,
        }
    }
}

impl Ticket {
    /// As the number that librdkafka carries along, without an allocation for each message.
    pub(super) const fn to_opaque(self) -> usize {
        self.index << 1 | self.side as usize
    }

    pub(super) const fn from_opaque(opaque: usize) -> Self {
        let side = if opaque & 1 == 0 {
            Side::Even
        } else {
            Side::Odd
        };
        let index = opaque >> 1;
        Self { side, index }
    }
}

/// What the client says of itself, apart from any message.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) code: RDKafkaErrorCode,
    /// librdkafka's words, without secrets.
    pub(super) reason: String,
}

impl Reports {
    const fn of(&self, side: Side) -> &OfSide {
        match side {
            Side::Even => &self.even,
            Side::Odd => &self.odd,
        }
    }

    /// Notes that a message is about to be handed over.
    pub(super) fn expect(&self, side: Side) {
        self.of(side).pending.fetch_add(1, SeqCst);
    }

    /// Notes that it was not taken after all.
    pub(super) fn expect_not(&self, side: Side) {
        self.of(side).pending.fetch_sub(1, SeqCst);
    }

    /// Counts one report. Called on the polling thread.
    pub(super) fn count(&self, ticket: Ticket, failure: Option<&KafkaError>) {
        if let Some(error) = failure {
            locked(&self.failures).push((ticket, error.clone()));
            self.trouble(ticket.side);
        }
        let left = self.of(ticket.side).pending.fetch_sub(1, SeqCst) - 1;
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

    /// Makes the delivery of a batch stop. Called on the polling thread.
    pub(super) fn trouble(&self, side: Side) {
        if !self.of(side).troubled.swap(true, SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Whether any message of a batch has failed, or the producer as a whole.
    pub(super) fn is_troubled(&self, side: Side) -> bool {
        self.of(side).troubled.load(SeqCst)
    }

    /// How many messages of a batch are not reported yet.
    pub(super) fn pending(&self, side: Side) -> usize {
        self.of(side).pending.load(SeqCst)
    }

    /// Waits until at most `most` of a batch are pending, or the deadline is over; also
    /// until it has trouble, if that is to be heeded.
    pub(super) async fn wait(
        &self,
        side: Side,
        most: usize,
        heed_trouble: bool,
        deadline: Instant,
    ) -> Waited {
        self.wake_at.store(most, SeqCst);
        let waited = loop {
            if self.pending(side) <= most {
                break Waited::Done;
            }
            if heed_trouble && self.is_troubled(side) {
                break Waited::Troubled;
            }
            if timeout_at(deadline, self.changed.notified()).await.is_err() {
                break Waited::Late;
            }
        };
        self.wake_at.store(0, SeqCst);
        waited
    }

    /// What failed of a batch since the last call, by index.
    pub(super) fn take_failures(&self, side: Side) -> Vec<(usize, KafkaError)> {
        let mut failures = locked(&self.failures);
        let of_side = failures.extract_if(.., |(ticket, _)| ticket.side == side);
        of_side
            .map(|(ticket, error)| (ticket.index, error))
            .collect()
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FAILED: KafkaError = KafkaError::MessageProduction(RDKafkaErrorCode::InvalidRecord);

    fn ticket(side: Side, index: usize) -> Ticket {
        Ticket { side, index }
    }

    #[test]
    fn a_ticket_comes_back_as_it_went() {
        for side in [Side::Even, Side::Odd] {
            for index in [0, 1, 2, 4_999, usize::MAX >> 1] {
                let ticket = ticket(side, index);
                assert_eq!(Ticket::from_opaque(ticket.to_opaque()), ticket);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_of_two_batches_has_its_own_end_and_its_own_trouble() {
        let reports = Reports::default();
        let soon = Instant::now() + Duration::from_secs(1);
        for side in [Side::Even, Side::Odd, Side::Odd] {
            reports.expect(side);
        }
        reports.count(ticket(Side::Odd, 1), Some(&FAILED));
        assert!(reports.is_troubled(Side::Odd) && !reports.is_troubled(Side::Even));
        let waited = reports.wait(Side::Even, 0, true, soon).await;
        assert_eq!(waited, Waited::Late, "the other's trouble is not its own");
        reports.count(ticket(Side::Even, 0), None);
        assert_eq!(reports.wait(Side::Even, 0, true, soon).await, Waited::Done);
        assert_eq!(
            reports.wait(Side::Odd, 0, true, soon).await,
            Waited::Troubled
        );
        assert!(reports.take_failures(Side::Even).is_empty());
        assert_eq!(reports.take_failures(Side::Odd), [(1, FAILED)]);
    }
}
