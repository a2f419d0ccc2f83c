//! What an attempt at an event ahead of its turn says.

use outbox::DeadLetter;
use outbox_sinks::{Batch, SinkError};

use super::super::judge::{Attempt, Judged, Verdict, judge, timed_out};
use super::verdicts::dead;

/// Why an event ahead of its turn did not go through.
pub(super) enum Not {
    /// It can never be sent.
    Ever(Box<DeadLetter>),
    /// The destination did not take it.
    Taken(SinkError),
    /// Whether it did is not known.
    Known(SinkError),
    /// Somebody newer owns the destination.
    Ours(SinkError),
}

/// Whether the destination took a batch of one.
pub(super) fn taken(batch: &Batch, attempt: Attempt) -> Result<(), Not> {
    match judge(batch, attempt, true) {
        Judged::All => Ok(()),
        Judged::Each(verdicts) => match verdicts.first() {
            Some(Verdict::Delivered) => Ok(()),
            Some(Verdict::Undeliverable(refusal)) => {
                Err(Not::Ever(Box::new(dead(batch.first(), refusal, 1))))
            }
            Some(Verdict::Refused(refusal)) => {
                let what = format!("its neighbour was refused as well: {refusal}");
                Err(Not::Taken(SinkError::failed(what)))
            }
            Some(Verdict::Unconfirmed) | None => {
                let what = "an event is not confirmed";
                Err(Not::Known(SinkError::unavailable(what)))
            }
        },
        Judged::Failed(error) if timed_out(&error) => Err(Not::Known(error)),
        Judged::Failed(error) => Err(Not::Taken(error)),
        Judged::Out(error) => Err(Not::Known(error)),
        Judged::Fenced(error) => Err(Not::Ours(error)),
    }
}
