//! What an attempt came to, and what the loop does next.
//!
//! Guards OB-1 and OB-4: the cursor moves only up to the first event that is not
//! delivered, and what was not delivered is tried again before anything after it.

use outbox::Position;
use outbox_sinks::{Batch, Delivery, ErrorKind, SinkError, Verdict};

/// The outcome of one attempt, as the loop saw it.
pub type Attempt = Result<Delivery, SinkError>;

/// What the loop does next.
#[derive(Debug)]
pub enum Step {
    /// All of it is durable: move the cursor past the batch.
    Commit,
    /// A part is durable. Move the cursor to `up_to` (if it can move at all), and
    /// after a pause try `rest`, which holds every event that is not durable.
    Retry {
        /// The last event before which everything is durable.
        up_to: Option<Position>,
        /// What to try again.
        rest: Batch,
        /// Why.
        error: SinkError,
    },
    /// Somebody newer owns the destination: let the lease go.
    GiveUp(SinkError),
}

/// Decides what to do after an attempt at `batch`.
#[must_use]
pub fn next_step(batch: &Batch, attempt: Attempt) -> Step {
    match attempt {
        Ok(Delivery::All) => Step::Commit,
        Ok(Delivery::Each(verdicts)) if verdicts.len() == batch.len() => settle(batch, &verdicts),
        Ok(Delivery::Each(verdicts)) => retry_all(batch, miscounted(batch.len(), verdicts.len())),
        Err(error) if error.kind() == ErrorKind::Fenced => Step::GiveUp(error),
        Err(error) => retry_all(batch, error),
    }
}

fn retry_all(batch: &Batch, error: SinkError) -> Step {
    Step::Retry {
        up_to: None,
        rest: batch.clone(),
        error,
    }
}

fn miscounted(events: usize, verdicts: usize) -> SinkError {
    SinkError::failed(format!(
        "the sink gave {verdicts} verdicts for {events} events"
    ))
}

fn settle(batch: &Batch, verdicts: &[Verdict]) -> Step {
    let delivered = |verdict: &Verdict| *verdict == Verdict::Delivered;
    let prefix = verdicts
        .iter()
        .take_while(|verdict| delivered(verdict))
        .count();
    let open: Vec<_> = batch
        .iter()
        .zip(verdicts)
        .filter(|(_, verdict)| !delivered(verdict))
        .map(|(event, _)| event.clone())
        .collect();
    let Some(rest) = Batch::new(open) else {
        return Step::Commit;
    };
    let up_to = prefix
        .checked_sub(1)
        .and_then(|last| batch.get(last))
        .map(|e| e.position());
    Step::Retry {
        up_to,
        error: blame(&rest, verdicts),
        rest,
    }
}

/// One error for the open events: the first refusal speaks for all of them.
fn blame(rest: &Batch, verdicts: &[Verdict]) -> SinkError {
    let refusal = verdicts.iter().find_map(|verdict| match verdict {
        Verdict::Undeliverable(refusal) | Verdict::Refused(refusal) => Some(refusal),
        Verdict::Delivered | Verdict::Unconfirmed => None,
    });
    match refusal {
        Some(refusal) => SinkError::failed(format!(
            "{} of the batch's events were not delivered; the first refusal is {refusal}",
            rest.len()
        )),
        None => SinkError::unavailable(format!("{} events are not confirmed", rest.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::Event;
    use outbox_sinks::Refusal;
    use proptest::prelude::*;

    fn batch(n: i64) -> Batch {
        let event = |seq| Event::new(Position::new(1, seq), "a.b", "{}");
        Batch::new((1..=n).map(event).collect::<Vec<_>>()).unwrap()
    }

    fn verdict(of: u8) -> Verdict {
        match of {
            0 => Verdict::Delivered,
            1 => Verdict::Unconfirmed,
            2 => Verdict::Refused(Refusal::new("NO", "no")),
            _ => Verdict::Undeliverable(Refusal::new("TOO_LARGE", "too large")),
        }
    }

    #[test]
    fn a_wrong_number_of_verdicts_is_a_failed_delivery_of_everything() {
        let step = next_step(&batch(3), Ok(Delivery::Each(vec![Verdict::Delivered; 2])));
        assert!(matches!(step, Step::Retry { up_to: None, ref rest, .. } if rest.len() == 3));
    }

    #[test]
    fn fencing_gives_the_lease_up_and_every_other_error_tries_again() {
        let error = |kind| Err(SinkError::new(kind, "x"));
        assert!(matches!(
            next_step(&batch(1), error(ErrorKind::Fenced)),
            Step::GiveUp(_)
        ));
        for kind in [
            ErrorKind::Unavailable,
            ErrorKind::Failed,
            ErrorKind::Misconfigured,
        ] {
            assert!(matches!(
                next_step(&batch(1), error(kind)),
                Step::Retry { .. }
            ));
        }
    }

    proptest! {
        #[test]
        fn the_cursor_never_passes_an_event_that_is_not_delivered(
            of in proptest::collection::vec(0u8..4, 1..40),
        ) {
            let batch = batch(i64::try_from(of.len()).unwrap());
            let verdicts: Vec<_> = of.iter().map(|of| verdict(*of)).collect();
            let open: Vec<i64> = (1..).zip(&of).filter(|(_, of)| **of != 0).map(|(n, _)| n).collect();
            match next_step(&batch, Ok(Delivery::Each(verdicts))) {
                Step::Commit => prop_assert!(open.is_empty()),
                Step::Retry { up_to, rest, .. } => {
                    let tried: Vec<_> = rest.iter().map(|e| e.position().seq).collect();
                    prop_assert_eq!(up_to.map_or(0, |p| p.seq), open[0] - 1);
                    prop_assert_eq!(tried, open);
                }
                Step::GiveUp(_) => prop_assert!(false, "nobody fenced us"),
            }
        }
    }
}
