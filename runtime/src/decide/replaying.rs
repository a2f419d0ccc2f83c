//! What becomes of replays after an attempt at them.

use outbox::{Replay, ReplayOutcome};
use outbox_sinks::{Batch, SinkError};

use super::Next;
use super::judge::{Attempt, Judged, Verdict, judge};

/// How often a replay may fail alone before it is a dead letter again, if its sink
/// can't say why: it may be an outage.
const MAX_FAILURES: u32 = 5;

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

/// Judges an attempt at `replays`, whose events made the batch, after so many `failures`
/// in a row. A replay that is refused is a dead letter again at once: a person asked for
/// it and will look.
#[must_use]
pub fn replayed(replays: &[Replay], batch: &Batch, attempt: Attempt, failures: u32) -> Replayed {
    let told = |outcomes, next| Replayed {
        outcomes,
        one_by_one: false,
        next,
    };
    let ids = || replays.iter().map(|replay| replay.id);
    match judge(batch, attempt, false) {
        Judged::All => told(
            ids().map(|id| (id, ReplayOutcome::Delivered)).collect(),
            Next::Go,
        ),
        Judged::Each(verdicts) => {
            let known = ids().zip(&verdicts).filter_map(|(id, verdict)| {
                let outcome = match verdict {
                    Verdict::Delivered => ReplayOutcome::Delivered,
                    Verdict::Undeliverable(it) | Verdict::Refused(it) => {
                        refused(it.code(), it.reason())
                    }
                    Verdict::Unconfirmed => return None,
                };
                Some((id, outcome))
            });
            let outcomes: Vec<_> = known.collect();
            let next = if outcomes.len() == replays.len() {
                Next::Go
            } else {
                Next::BackOff(SinkError::unavailable("replays are not confirmed"))
            };
            told(outcomes, next)
        }
        Judged::Failed(error) => match replays {
            [replay] if failures + 1 >= MAX_FAILURES => {
                let outcome = refused("FAILED", &error.chain());
                told(vec![(replay.id, outcome)], Next::Go)
            }
            [_] => told(Vec::new(), Next::BackOff(error)),
            _ => Replayed {
                one_by_one: true,
                ..told(Vec::new(), Next::Go)
            },
        },
        Judged::Out(error) => told(Vec::new(), Next::BackOff(error)),
        Judged::Fenced(error) => told(Vec::new(), Next::GiveUp(error)),
    }
}

fn refused(code: &str, error: &str) -> ReplayOutcome {
    ReplayOutcome::Refused {
        code: code.to_owned(),
        error: error.to_owned(),
    }
}
