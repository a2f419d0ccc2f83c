//! What becomes of replays after an attempt at them.

use outbox::{Replay, ReplayOutcome};
use outbox_sinks::{Batch, Verdict};

use super::Next;
use super::judge::{Attempt, Judged, judge};

/// What is written, and what the loop does then.
#[derive(Debug)]
pub struct Replayed {
    /// What came of each replay of which something is known.
    pub outcomes: Vec<(i64, ReplayOutcome)>,
    /// Whether they must be tried one by one.
    pub one_by_one: bool,
    /// What follows: a pause before the next replay, never before live events.
    pub next: Next,
}

/// Judges an attempt at `replays`, whose events made the batch. A replay that is
/// refused is a dead letter again at once: a person asked for it and will look.
#[must_use]
pub fn replayed(replays: &[Replay], batch: &Batch, attempt: Attempt) -> Replayed {
    let refused = |code: &str, error: &str| ReplayOutcome::Refused {
        code: code.to_owned(),
        error: error.to_owned(),
    };
    let ids = || replays.iter().map(|replay| replay.id);
    let done = |outcomes| Replayed {
        outcomes,
        one_by_one: false,
        next: Next::Go,
    };
    match judge(batch, attempt, false) {
        Judged::All => done(ids().map(|id| (id, ReplayOutcome::Delivered)).collect()),
        Judged::Each(verdicts) => {
            let outcomes = ids().zip(&verdicts).filter_map(|(id, verdict)| {
                let outcome = match verdict {
                    Verdict::Delivered => ReplayOutcome::Delivered,
                    Verdict::Undeliverable(it) | Verdict::Refused(it) => {
                        refused(it.code(), it.reason())
                    }
                    Verdict::Unconfirmed => return None,
                };
                Some((id, outcome))
            });
            done(outcomes.collect())
        }
        Judged::Failed(error) => match replays {
            [replay] => done(vec![(replay.id, refused("FAILED", &error.chain()))]),
            _ => Replayed {
                outcomes: Vec::new(),
                one_by_one: true,
                next: Next::Go,
            },
        },
        Judged::Out(error) => Replayed {
            next: Next::BackOff(error),
            ..done(Vec::new())
        },
        Judged::Fenced(error) => Replayed {
            next: Next::GiveUp(error),
            ..done(Vec::new())
        },
    }
}
