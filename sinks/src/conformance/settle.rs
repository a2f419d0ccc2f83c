//! Works a batch off in which some events are suspect, as the runtime does: halves what
//! failed, tries alone what was refused, and lets nobody suffer for a neighbour.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use outbox::{Event, Position};
use tokio::time::sleep;

use super::courier::{Courier, blamed, describe};
use super::finding::{Finding, Stop};
use super::scene::Scene;
use super::{Destination, Rule};
use crate::{Batch, ErrorKind, SinkError, Verdict};

/// How often a delivery may be called an outage before it counts.
const OUTAGES: usize = 2;

const BACKOFF: Duration = Duration::from_millis(100);

/// What became of the events of a batch.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) delivered: Vec<Event>,
    pub(super) undeliverable: Vec<Event>,
    /// Refused, or failed, alone.
    pub(super) refused: Vec<Event>,
}

impl Settled {
    fn has(&self, position: Position) -> bool {
        let all = [&self.delivered, &self.undeliverable, &self.refused];
        all.into_iter()
            .flatten()
            .any(|event| event.position() == position)
    }
}

/// A batch with suspects that is being worked off.
struct Work<'w> {
    batch: &'w Batch,
    suspects: &'w BTreeSet<Position>,
    /// What is broken if a suspect is met with anything but a verdict or `Failed`.
    rule: Rule,
    frozen: bool,
    queue: VecDeque<Batch>,
    settled: Settled,
    outages: usize,
}

/// Delivers until every event is settled: delivered, or, of the suspects, dead-lettered.
///
/// `rule` is what is broken if the sink makes an outage or a wrong setting of a suspect.
pub(super) async fn settle<D: Destination>(
    scene: &Scene<'_, D>,
    courier: &mut Courier,
    batch: &Batch,
    suspects: &BTreeSet<Position>,
    rule: Rule,
) -> Finding<Settled> {
    let mut work = Work {
        batch,
        suspects,
        rule,
        frozen: courier.frozen(),
        queue: VecDeque::from([batch.clone()]),
        settled: Settled::default(),
        outages: 0,
    };
    let limit = 10 + 4 * batch.len();
    for _ in 0..limit {
        let Some(next) = work.queue.pop_front() else {
            work.settled.delivered.sort_by_key(Event::position);
            return Ok(work.settled);
        };
        match courier.deliver(&next).await? {
            Ok(verdicts) => work.sort(&next, &verdicts)?,
            Err(error) => {
                work.fail(next, &error)?;
                sleep(BACKOFF).await;
            }
        }
        work.nobody_went_ahead(scene, courier).await?;
    }
    let open: usize = work.queue.iter().map(|batch| batch.len()).sum();
    let seen = format!(
        "after {limit} calls {open} of {} events are open",
        batch.len()
    );
    Err(Stop::broken(rule, seen))
}

impl Work<'_> {
    /// Sorts the events by their verdicts, and puts back what is open.
    fn sort(&mut self, batch: &Batch, verdicts: &[Verdict]) -> Finding {
        let mut open: Vec<Vec<Event>> = vec![Vec::new()];
        for (event, verdict) in batch.iter().zip(verdicts) {
            let suspect = self.suspects.contains(&event.position());
            match verdict {
                Verdict::Delivered => self.settled.delivered.push(event.clone()),
                Verdict::Unconfirmed => match open.last_mut() {
                    Some(run) => run.push(event.clone()),
                    None => open.push(vec![event.clone()]),
                },
                Verdict::Undeliverable(_) if suspect => {
                    self.settled.undeliverable.push(event.clone());
                }
                Verdict::Refused(_) if suspect && batch.len() == 1 => {
                    self.settled.refused.push(event.clone());
                }
                // It is tried alone.
                Verdict::Refused(_) if suspect => {
                    open.extend([vec![event.clone()], Vec::new()]);
                }
                Verdict::Undeliverable(refusal) => {
                    return Err(blamed(Rule::Blame, "undeliverable", event, refusal));
                }
                Verdict::Refused(refusal) => {
                    return Err(blamed(Rule::Blame, "refused", event, refusal));
                }
            }
        }
        for run in open.into_iter().rev().filter_map(Batch::new) {
            self.queue.push_front(run);
        }
        Ok(())
    }

    /// Halves what failed; holds everything else than `Failed` against the sink.
    fn fail(&mut self, batch: Batch, error: &SinkError) -> Finding {
        let told = describe(error);
        match error.kind() {
            ErrorKind::Unavailable if self.outages < OUTAGES => {
                self.outages += 1;
                self.queue.push_front(batch);
                Ok(())
            }
            ErrorKind::Unavailable | ErrorKind::Misconfigured | ErrorKind::Fenced => {
                let seen = format!("an event that is not taken made the delivery {told}");
                Err(Stop::broken(self.rule, seen))
            }
            ErrorKind::Failed => match batch.halves() {
                Some(_) if self.frozen => {
                    let seen = format!("a frozen range with an event that is not taken: {told}");
                    Err(Stop::broken(self.rule, seen))
                }
                Some((left, right)) => {
                    self.queue.push_front(right);
                    self.queue.push_front(left);
                    Ok(())
                }
                None if self.suspects.contains(&batch.end()) => {
                    self.settled.refused.extend(batch.iter().cloned());
                    Ok(())
                }
                None => {
                    let position = batch.end();
                    let seen =
                        format!("the event at {position} can be delivered; alone, it is {told}");
                    Err(Stop::broken(Rule::Blame, seen))
                }
            },
        }
    }

    /// Nothing of a suspect's key is there behind it before it is settled (OB-4).
    async fn nobody_went_ahead<D: Destination>(
        &self,
        scene: &Scene<'_, D>,
        courier: &mut Courier,
    ) -> Finding {
        let connector = courier.connector();
        let open: Vec<_> = self
            .batch
            .iter()
            .filter(|event| self.suspects.contains(&event.position()))
            .filter(|event| !self.settled.has(event.position()))
            .map(|event| (event.position(), connector.key(event).into_owned()))
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let stored = scene.stored().await;
        for event in self.batch.iter() {
            let (position, key) = (event.position(), connector.key(event));
            let before = open
                .iter()
                .find(|(open, its)| *open < position && *its == key);
            if let Some((open, _)) = before
                && stored.iter().any(|stored| stored.id == event.id())
            {
                let seen = format!(
                    "the event at {position} is there, while {open} of the same key was not \
                     delivered and not given up"
                );
                return Err(Stop::broken(Rule::Order, seen));
            }
        }
        Ok(())
    }
}
