//! The closed sets: what a loop can be doing, what it can be waiting for, and what can
//! come of an attempt at a delivery. They are the values of labels.

use outbox_sinks::{Batch, Delivery, ErrorKind, Verdict};
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use serde::Serialize;

use crate::decide::Attempt;
use crate::feed::ClosedBy;

/// What a sink's loop is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It waits for the lease: another worker may have it.
    #[default]
    Waiting,
    /// It claims the cursor or opens the sink.
    Opening,
    /// It has a batch in hand.
    Delivering,
    /// It waits for events.
    Idle,
    /// It waits after a failure.
    BackingOff,
    /// An operator or the fuse has paused it.
    Paused,
    /// It delivers nothing before a person has decided, or the worker ends.
    Stopped,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Opening,
        Self::Delivering,
        Self::Idle,
        Self::BackingOff,
        Self::Paused,
        Self::Stopped,
    ];

    /// The label's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Opening => "opening",
            Self::Delivering => "delivering",
            Self::Idle => "idle",
            Self::BackingOff => "backing-off",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }

    /// Whether the loop holds its sink's lease while it does this.
    #[must_use]
    pub const fn holds_lease(self) -> bool {
        match self {
            Self::Waiting | Self::Stopped => false,
            Self::Opening | Self::Delivering | Self::Idle | Self::BackingOff | Self::Paused => true,
        }
    }
}

/// What a loop waits for that has a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// The database's answer.
    Database,
    /// The opening of the sink.
    Open,
    /// A delivery.
    Delivery,
}

impl Call {
    /// The call, for people.
    pub(super) const fn described(self) -> &'static str {
        match self {
            Self::Database => "a call to the database",
            Self::Open => "opening the sink",
            Self::Delivery => "a delivery",
        }
    }
}

/// What came of an attempt at a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Every event is durable there.
    Delivered,
    /// Some events were refused, can't be sent, or are not confirmed.
    Partly,
    /// The destination is out.
    Unavailable,
    /// It failed, and nobody can say why.
    Failed,
    /// It needs a person.
    Misconfigured,
    /// Somebody newer owns the destination.
    Fenced,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Delivered,
        Self::Partly,
        Self::Unavailable,
        Self::Failed,
        Self::Misconfigured,
        Self::Fenced,
    ];

    /// The label's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Partly => "partly",
            Self::Unavailable => ErrorKind::Unavailable.as_str(),
            Self::Failed => ErrorKind::Failed.as_str(),
            Self::Misconfigured => ErrorKind::Misconfigured.as_str(),
            Self::Fenced => ErrorKind::Fenced.as_str(),
        }
    }
}

impl From<ErrorKind> for Outcome {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Failed => Self::Failed,
            ErrorKind::Misconfigured => Self::Misconfigured,
            ErrorKind::Fenced => Self::Fenced,
        }
    }
}

/// What the destination has acknowledged of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) outcome: Outcome,
    pub(super) events: u64,
    pub(super) bytes: u64,
}

impl Acknowledged {
    /// Counts the events that an attempt at `batch` delivered.
    pub(super) fn by(attempt: &Attempt, batch: &Batch) -> Self {
        let nothing = |outcome| Self {
            outcome,
            events: 0,
            bytes: 0,
        };
        match attempt {
            Ok(Delivery::All) => Self {
                outcome: Outcome::Delivered,
                events: count(batch.len()),
                bytes: count(batch.payload_bytes()),
            },
            // A list of another length says nothing about any event.
            Ok(Delivery::Each(verdicts)) if verdicts.len() != batch.len() => {
                nothing(Outcome::Failed)
            }
            Ok(Delivery::Each(verdicts)) => {
                let judged = batch.iter().zip(verdicts);
                let taken = judged.filter(|(_, verdict)| **verdict == Verdict::Delivered);
                let sizes = taken.map(|(event, _)| event.payload().len());
                let (events, bytes) = sizes.fold((0, 0), |(n, sum), size| (n + 1, sum + size));
                Self {
                    outcome: if events == batch.len() {
                        Outcome::Delivered
                    } else {
                        Outcome::Partly
                    },
                    events: count(events),
                    bytes: count(bytes),
                }
            }
            Err(error) => nothing(error.kind().into()),
        }
    }
}

/// Why a batch was closed, as the label says it.
pub(super) const CLOSED_BY: [ClosedBy; 4] = [
    ClosedBy::Events,
    ClosedBy::Bytes,
    ClosedBy::Age,
    ClosedBy::Exact,
];

impl EncodeLabelValue for State {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.as_str().encode(encoder)
    }
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.as_str().encode(encoder)
    }
}

impl EncodeLabelValue for ClosedBy {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.as_str().encode(encoder)
    }
}

/// A size as a counter takes it.
pub(super) fn count(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox_sinks::{Event, Position, Refusal, SinkError};

    fn batch() -> Batch {
        let event = |n: u64, payload: &'static str| Event::new(Position::new(n, 1), "a.b", payload);
        Batch::new(vec![event(1, "{}"), event(2, "{ }"), event(3, "{  }")]).unwrap()
    }

    #[test]
    fn only_what_was_acknowledged_counts() {
        let no = || Refusal::new("NO", "never");
        let (yes, refused) = (Verdict::Delivered, Verdict::Refused(no()));
        let never = Verdict::Undeliverable(no());
        let each = |verdicts: &[&Verdict]| {
            let verdicts = verdicts.iter().map(|verdict| (*verdict).clone());
            Ok(Delivery::Each(verdicts.collect()))
        };
        for (attempt, outcome, events, bytes) in [
            (Ok(Delivery::All), Outcome::Delivered, 3, 9),
            (each(&[&yes, &yes, &yes]), Outcome::Delivered, 3, 9),
            (each(&[&yes, &refused, &yes]), Outcome::Partly, 2, 6),
            (
                each(&[&never, &yes, &Verdict::Unconfirmed]),
                Outcome::Partly,
                1,
                3,
            ),
            (each(&[&refused, &refused, &refused]), Outcome::Partly, 0, 0),
            (each(&[&yes]), Outcome::Failed, 0, 0),
            (
                Err(SinkError::unavailable("no")),
                Outcome::Unavailable,
                0,
                0,
            ),
            (
                Err(SinkError::misconfigured("no", "do")),
                Outcome::Misconfigured,
                0,
                0,
            ),
            (Err(SinkError::fenced("no")), Outcome::Fenced, 0, 0),
        ] {
            let counted = Acknowledged::by(&attempt, &batch());
            let told = (counted.outcome, counted.events, counted.bytes);
            assert_eq!(told, (outcome, events, bytes), "{attempt:?}");
        }
    }

    #[test]
    fn the_label_of_a_state_is_its_name_in_json() {
        for state in State::ALL {
            let json = serde_json::to_string(&state).unwrap();
            assert_eq!(json, format!("{:?}", state.as_str()));
        }
    }
}
