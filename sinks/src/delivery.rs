//! What a delivery came to, event by event.

use std::borrow::Cow;
use std::fmt;

/// What a sink can say after it has tried a batch: everything is durable at the
/// destination, or a verdict for each event.
///
/// What the runtime does with it is told at [`Verdict`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Every event of the batch is durable at the destination.
    All,
    /// One verdict for each event, in the batch's order and of its length. A
    /// list of another length is a bug in the sink and counts as a failed delivery.
    Each(Vec<Verdict>),
}

impl Delivery {
    /// Tidies a list of verdicts: [`Delivery::All`] if every one is `Delivered`.
    #[must_use]
    pub fn from_verdicts(verdicts: Vec<Verdict>) -> Self {
        if verdicts
            .iter()
            .all(|verdict| *verdict == Verdict::Delivered)
        {
            Self::All
        } else {
            Self::Each(verdicts)
        }
    }
}

/// What became of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Durable at the destination: it survives a crash there.
    Delivered,
    /// It can never be sent, and that is known without doubt and without asking
    /// the destination again: too large, an illegal name, no JSON. It becomes a dead
    /// letter at once, so nothing that an outage, a proxy, a quota or a wrong setting at
    /// the destination could cause is a reason.
    Undeliverable(Refusal),
    /// The destination would not take this one. It may take it later: it is tried alone,
    /// and becomes a dead letter once it was refused a number of times in a row while
    /// another event went through. In doubt an error of the whole delivery is better,
    /// which blames nobody.
    Refused(Refusal),
    /// Not known: it may have arrived or not. It is sent again.
    Unconfirmed,
}

/// Why an event was not taken: a code that programs can group by, and a sentence
/// for people. Neither holds a payload or a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: Cow<'static, str>,
    reason: String,
}

impl Refusal {
    /// A refusal with a code such as `TOO_LARGE`, and the reason as a sentence.
    pub fn new(code: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            reason: reason.into(),
        }
    }

    /// The code: upper case, few different ones, bounded by the sink.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The reason, for people.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)
    }
}
