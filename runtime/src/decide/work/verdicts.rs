//! Sorting a batch by its verdicts.

use outbox::{DeadLetter, Event, Position};
use outbox_sinks::{Batch, Refusal};

use super::super::judge::Verdict;

/// The events of a batch by what became of them.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// What has to be tried again, in order.
    pub(super) open: Vec<Event>,
    /// What can never be sent.
    pub(super) dead_letters: Vec<DeadLetter>,
    /// The open ones that were refused.
    pub(super) refused: Vec<Position>,
    /// The last event that was delivered before any other was not.
    pub(super) delivered: Option<Position>,
    /// The last event before which nothing is open.
    pub(super) up_to: Option<Position>,
    /// The first event that was taken behind an open one.
    pub(super) taken_after: Option<Position>,
}

impl Sorted {
    /// Sorts; there is one verdict for each event. `attempts` goes to the dead letters.
    pub(super) fn by(batch: &Batch, verdicts: Vec<Verdict>, attempts: u32) -> Self {
        let mut sorted = Self::default();
        for (event, verdict) in batch.iter().zip(verdicts) {
            let position = event.position();
            match verdict {
                Verdict::Delivered if sorted.open.is_empty() => {
                    sorted.up_to = Some(position);
                    if sorted.dead_letters.is_empty() {
                        sorted.delivered = Some(position);
                    }
                }
                Verdict::Delivered => {
                    sorted.taken_after.get_or_insert(position);
                }
                Verdict::Undeliverable(refusal) => {
                    if sorted.open.is_empty() {
                        sorted.up_to = Some(position);
                    }
                    sorted.dead_letters.push(dead(event, &refusal, attempts));
                }
                Verdict::Refused(_) => {
                    sorted.refused.push(position);
                    sorted.open.push(event.clone());
                }
                Verdict::Unconfirmed => sorted.open.push(event.clone()),
            }
        }
        sorted
    }
}

/// The dead letter of an event that can never be sent.
pub(super) fn dead(event: &Event, refusal: &Refusal, attempts: u32) -> DeadLetter {
    DeadLetter {
        event: event.clone(),
        code: refusal.code().to_owned(),
        error: refusal.reason().to_owned(),
        attempts,
    }
}
