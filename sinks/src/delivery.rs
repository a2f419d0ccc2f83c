//! What a delivery came to, event by event.

use std::borrow::Cow;
use std::fmt;

/// What a sink can say after it has tried a batch: everything is durable at the
/// destination, or a verdict for each event.
///
/// What the runtime does with it is told at [`Verdict`].
///
/// ```
/// use outbox_sinks::{Delivery, Refusal, Verdict};
/// let too_large = Verdict::Undeliverable(Refusal::new("TOO_LARGE", "9 MiB of at most 8"));
/// let delivery = Delivery::from_verdicts(vec![Verdict::Delivered, too_large]);
/// assert!(delivery.is_delivered(0) && !delivery.is_delivered(1));
/// assert_eq!(Delivery::from_verdicts(vec![Verdict::Delivered; 2]), Delivery::All);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

    /// Whether the event at this place of the batch is durable: what somebody needs to
    /// know who only counts or forwards.
    #[must_use]
    pub fn is_delivered(&self, index: usize) -> bool {
        match self {
            Self::All => true,
            Self::Each(verdicts) => verdicts.get(index) == Some(&Verdict::Delivered),
        }
    }
}

/// What became of one event.
///
/// ```
/// use outbox_sinks::{Refusal, Verdict};
///
/// /// What a status of HTTP says about one event.
/// fn verdict(status: u16) -> Verdict {
///     match status {
///         200..=299 => Verdict::Delivered,
///         413 => Verdict::Refused(Refusal::new("TOO_LARGE", "the server takes less at once")),
///         422 => Verdict::Refused(Refusal::new("UNPROCESSABLE", "the server can't use it")),
///         _ => Verdict::Unconfirmed,
///     }
/// }
/// assert_eq!(verdict(201), Verdict::Delivered);
/// assert_eq!(verdict(502), Verdict::Unconfirmed);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
///
/// ```
/// use outbox_sinks::Refusal;
/// let refusal = Refusal::new("TOO_LARGE", "9 MiB of at most 8 MiB");
/// assert_eq!(refusal.code(), "TOO_LARGE");
/// assert_eq!(refusal.to_string(), "TOO_LARGE: 9 MiB of at most 8 MiB");
/// ```
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
