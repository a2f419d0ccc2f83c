//! What one attempt says: the many answers of a sink, brought down to five.
//!
//! The contract may grow, and a sink may be built with a newer one than this runtime. Here,
//! and nowhere else, is decided what an answer means that this runtime does not know: the
//! careful thing, which is to try again and to blame nobody.

use outbox_sinks::{Batch, Delivery, ErrorKind, Refusal, SinkError};

/// The outcome of one attempt, as the loop saw it.
pub type Attempt = Result<Delivery, SinkError>;

/// The reason within a [`SinkError`] of the runtime's own: the sink gave no answer in
/// time, so nobody knows what became of its events.
#[derive(Debug, thiserror::Error)]
#[error("no answer came in time")]
pub struct TimedOut;

/// Whether an error is that the sink gave no answer in time.
pub(super) fn timed_out(error: &SinkError) -> bool {
    error.source().is_some_and(|source| source.is::<TimedOut>())
}

/// What became of one event, as far as this runtime tells it apart: the variants are those of
/// [`outbox_sinks::Verdict`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Delivered,
    Undeliverable(Refusal),
    Refused(Refusal),
    Unconfirmed,
}

impl From<outbox_sinks::Verdict> for Verdict {
    fn from(verdict: outbox_sinks::Verdict) -> Self {
        use outbox_sinks::Verdict as Given;
        match verdict {
            Given::Delivered => Self::Delivered,
            Given::Undeliverable(refusal) => Self::Undeliverable(refusal),
            Given::Refused(refusal) => Self::Refused(refusal),
            // One that is not known here says nothing that could settle an event.
            Given::Unconfirmed | _ => Self::Unconfirmed,
        }
    }
}

/// What kind of failure it was, as far as this runtime tells it apart: the variants are those
/// of [`ErrorKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Unavailable,
    Failed,
    Misconfigured,
    Fenced,
}

impl From<ErrorKind> for Fault {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Misconfigured => Self::Misconfigured,
            ErrorKind::Fenced => Self::Fenced,
            // One that is not known here: the batch failed, and nobody can say why.
            ErrorKind::Failed | _ => Self::Failed,
        }
    }
}

/// What an attempt says about its events.
#[derive(Debug)]
pub(super) enum Judged {
    /// Every event is durable.
    All,
    /// One verdict for each event.
    Each(Vec<Verdict>),
    /// The delivery failed, and nobody can say which event is to blame.
    Failed(SinkError),
    /// The destination is out: nothing is known against any event.
    Out(SinkError),
    /// Somebody newer owns the destination.
    Fenced(SinkError),
}

/// Judges an attempt at `batch`. What belongs together stays together in a frozen
/// range: it is settled as a whole, or it failed as a whole.
pub(super) fn judge(batch: &Batch, attempt: Attempt, frozen: bool) -> Judged {
    match attempt {
        Ok(Delivery::All) => Judged::All,
        Ok(Delivery::Each(verdicts)) if verdicts.len() != batch.len() => {
            Judged::Failed(SinkError::failed(format!(
                "the sink gave {} verdicts for {} events",
                verdicts.len(),
                batch.len()
            )))
        }
        Ok(Delivery::Each(verdicts)) => {
            let verdicts = verdicts.into_iter().map(Verdict::from).collect();
            judge_each(batch, verdicts, frozen)
        }
        Ok(_) => Judged::Failed(SinkError::failed(
            "the sink gave an answer that this runtime does not know",
        )),
        Err(error) => match error.kind().into() {
            Fault::Fenced => Judged::Fenced(error),
            Fault::Failed => Judged::Failed(error),
            Fault::Unavailable | Fault::Misconfigured => Judged::Out(error),
        },
    }
}

fn judge_each(batch: &Batch, verdicts: Vec<Verdict>, frozen: bool) -> Judged {
    match summary(&verdicts) {
        Some(error) if error.kind() == ErrorKind::Unavailable && (frozen || alone(batch)) => {
            Judged::Out(error)
        }
        Some(error) if frozen && !alone(batch) => Judged::Failed(error),
        Some(_) | None => Judged::Each(verdicts),
    }
}

fn alone(batch: &Batch) -> bool {
    batch.len() == 1
}

/// One error for the open events, if there are any: the first refusal speaks for all of
/// them.
pub(super) fn summary(verdicts: &[Verdict]) -> Option<SinkError> {
    let refusals: Vec<&Refusal> = verdicts.iter().filter_map(refused).collect();
    if let Some(first) = refusals.first() {
        let count = refusals.len();
        return Some(SinkError::failed(match count {
            1 => format!("an event was refused: {first}"),
            _ => format!("{count} events were refused; the first: {first}"),
        }));
    }
    let unconfirmed = |verdict: &&Verdict| matches!(verdict, Verdict::Unconfirmed);
    match verdicts.iter().filter(unconfirmed).count() {
        0 => None,
        count => Some(SinkError::unavailable(format!(
            "{count} events are not confirmed"
        ))),
    }
}

pub(super) fn refused(verdict: &Verdict) -> Option<&Refusal> {
    match verdict {
        Verdict::Refused(refusal) => Some(refusal),
        Verdict::Delivered | Verdict::Undeliverable(_) | Verdict::Unconfirmed => None,
    }
}
