//! Calls a sink as the runtime does: bounded in time, with every panic caught, keeping
//! the sink after an error.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use outbox::{Event, Flow};
use tokio::time::{sleep, timeout};

use super::Rule;
use super::finding::{Finding, Stop};
use super::journal::Journal;
use crate::{
    Batch, CLOSE_TIMEOUT, Connector, Delivery, ErrorKind, PROBE_TIMEOUT, Progress, Refusal,
    Session, Sink, SinkError, Upcoming, Verdict,
};

/// How much later a probe or a close may return on a busy machine. A call within a session
/// has none: the runtime drops it at its deadline, and counts it as failed.
const MARGIN: Duration = Duration::from_secs(1);

/// "Within a few calls."
const CALLS: usize = 6;

/// How long to back off after the first of them; the pauses double, so all of them take
/// about five seconds. A client that reconnects within a second or two has its chance.
const BACKOFF: Duration = Duration::from_millis(150);

/// What one delivery came to.
pub(super) type Answer = Result<Vec<Verdict>, SinkError>;

/// A connector, and the sink that is open at the moment.
pub(super) struct Courier {
    connector: Box<dyn Connector>,
    session: Session,
    sink: Option<Box<dyn Sink>>,
    /// What the open sink's destination has stored, told when it was opened.
    progress: Option<Progress>,
    journal: Arc<Journal>,
}

impl Courier {
    pub(super) fn new(
        connector: Box<dyn Connector>,
        session: Session,
        journal: Arc<Journal>,
    ) -> Self {
        Self {
            connector,
            session,
            sink: None,
            progress: None,
            journal,
        }
    }

    pub(super) fn connector(&self) -> &dyn Connector {
        &*self.connector
    }

    pub(super) fn frozen(&self) -> bool {
        self.connector.frozen_ranges()
    }

    /// Probes.
    pub(super) async fn probe(&mut self) -> Finding<Result<(), SinkError>> {
        let probing = self.connector.probe();
        let answer = bounded("probe", PROBE_TIMEOUT, MARGIN, Rule::Deadline, probing).await?;
        Ok(answer.inspect_err(|error| self.journal.error("probe", error)))
    }

    /// Opens a sink, in place of the one that may be open, and asks it how far its
    /// destination has come if that stores a position.
    pub(super) async fn open(&mut self) -> Finding<Result<(), SinkError>> {
        (self.sink, self.progress) = (None, None);
        let opening = self.connector.open(&self.session);
        let deadline = self.session.delivery_timeout;
        let mut sink =
            match bounded("open", deadline, Duration::ZERO, Rule::Deadline, opening).await? {
                Ok(sink) => sink,
                Err(error) => {
                    self.journal.error("open", &error);
                    return Ok(Err(error));
                }
            };
        if self.connector.stores_position() {
            let asking = sink.progress();
            match bounded("progress", deadline, Duration::ZERO, Rule::Deadline, asking).await? {
                Ok(progress) => self.progress = progress,
                Err(error) => {
                    self.journal.error("progress", &error);
                    return Ok(Err(error));
                }
            }
        }
        self.sink = Some(sink);
        Ok(Ok(()))
    }

    /// Delivers once; opens a sink first if none is open.
    pub(super) async fn deliver(&mut self, batch: &Batch) -> Finding<Answer> {
        self.deliver_ahead(batch, None).await
    }

    /// The same, with the batch that comes next: where the runtime would give it to the sink,
    /// the sink may begin with it.
    pub(super) async fn deliver_ahead(
        &mut self,
        batch: &Batch,
        next: Option<&Batch>,
    ) -> Finding<Answer> {
        if self.sink.is_none()
            && let Err(error) = self.open().await?
        {
            return Ok(Err(error));
        }
        let waits = self.connector.frozen_ranges() || self.connector.stores_position();
        let mut next = match next.filter(|_| !waits).cloned() {
            Some(next) => Upcoming::new(async move { next }),
            None => Upcoming::none(),
        };
        let sink = self.sink.as_mut().expect("a sink was opened just now");
        let deadline = self.session.delivery_timeout;
        let delivery = bounded(
            "deliver",
            deadline,
            Duration::ZERO,
            Rule::Deadline,
            sink.deliver_ahead(batch, &mut next),
        )
        .await?;
        let verdicts = match delivery {
            Ok(Delivery::All) => vec![Verdict::Delivered; batch.len()],
            Ok(Delivery::Each(verdicts)) => verdicts,
            Err(error) => {
                self.journal.error("deliver", &error);
                return Ok(Err(error));
            }
        };
        self.look_at(batch, &verdicts)?;
        Ok(Ok(verdicts))
    }

    /// What holds for every answer.
    fn look_at(&self, batch: &Batch, verdicts: &[Verdict]) -> Finding {
        let mut open = 0;
        for verdict in verdicts {
            match verdict {
                Verdict::Delivered => {}
                Verdict::Undeliverable(refusal) => self.journal.refusal(refusal),
                Verdict::Refused(refusal) => {
                    open += 1;
                    self.journal.refusal(refusal);
                }
                Verdict::Unconfirmed => open += 1,
            }
        }
        let (given, events) = (verdicts.len(), batch.len());
        if given != events {
            let seen = format!("{given} verdicts for {events} events");
            return Err(Stop::broken(Rule::Verdicts, seen));
        }
        if open > 0 && self.frozen() {
            let seen = format!(
                "{open} of {events} events refused or unconfirmed, although a frozen range is \
                 settled as a whole"
            );
            return Err(Stop::broken(Rule::Verdicts, seen));
        }
        Ok(())
    }

    /// Delivers all of a batch that the destination takes, within a few calls.
    pub(super) async fn deliver_all(&mut self, batch: &Batch) -> Finding {
        self.go_on(batch, None).await
    }

    /// The same after an outage: whatever goes wrong now is held against that.
    pub(super) async fn recover(&mut self, batch: &Batch) -> Finding {
        self.go_on(batch, Some(Rule::Outage)).await
    }

    async fn go_on(&mut self, batch: &Batch, rule: Option<Rule>) -> Finding {
        let broken = |seen: String| Stop::Broken { rule, seen };
        let mut rest = batch.clone();
        let mut last = String::new();
        let mut pause = BACKOFF;
        for call in 0..CALLS {
            if call > 0 {
                sleep(pause).await;
                pause *= 2;
            }
            match self.deliver(&rest).await? {
                Ok(verdicts) => match open(&rest, &verdicts, rule.unwrap_or(Rule::Blame))? {
                    None => return Ok(()),
                    Some(open) => {
                        last = format!("{} events were unconfirmed", open.len());
                        rest = open;
                    }
                },
                Err(error) => {
                    last = describe(&error);
                    if error.kind() != ErrorKind::Unavailable {
                        let seen = format!("a batch that can be delivered came to {last}");
                        return Err(broken(seen));
                    }
                }
            }
        }
        let (open, all) = (rest.len(), batch.len());
        Err(broken(format!(
            "after {CALLS} calls {open} of {all} events were not delivered; the last call: {last}"
        )))
    }

    /// Lets go of the sink without closing it, as a process does that dies.
    pub(super) fn abandon(&mut self) {
        self.sink = None;
    }

    /// Begins a delivery and drops it after a while, together with its sink.
    pub(super) async fn drop_delivery(&mut self, batch: &Batch, after: Duration) {
        drop(timeout(after, self.deliver(batch)).await);
        self.abandon();
    }

    /// Goes on with another lease.
    pub(super) fn take_over(&mut self, token: i64) {
        self.session.token = token;
    }

    /// Goes on in another run of positions.
    pub(super) fn flow(&mut self, flow: Flow) {
        self.session = self.session.clone().in_flow(flow);
    }

    /// What the sink told when it was opened of how far its destination has come.
    pub(super) const fn told(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    /// Asks a sink that is to be asked nothing, since its connector says that no position
    /// is stored. It must be open.
    pub(super) async fn ask_anyway(&mut self) -> Finding<Option<Progress>> {
        let sink = self.sink.as_mut().expect("a sink has delivered just now");
        let deadline = self.session.delivery_timeout;
        let answer = bounded(
            "progress",
            deadline,
            Duration::ZERO,
            Rule::Deadline,
            sink.progress(),
        )
        .await?;
        answer.map_err(|error| {
            self.journal.error("progress", &error);
            Stop::own(format!("the progress came to {}", describe(&error)))
        })
    }

    /// Delivers for a sink of this name in the configuration.
    pub(super) fn rename(&mut self, sink: &str) {
        sink.clone_into(&mut self.session.sink);
    }

    /// Closes the sink, if one is open.
    pub(super) async fn close(&mut self) -> Finding<Result<(), SinkError>> {
        let Some(mut sink) = self.sink.take() else {
            return Ok(Ok(()));
        };
        let answer = bounded("close", CLOSE_TIMEOUT, MARGIN, Rule::Close, sink.close()).await?;
        Ok(answer.inspect_err(|error| self.journal.error("close", error)))
    }
}

/// What is still open of a batch of which no event is to blame for anything.
fn open(batch: &Batch, verdicts: &[Verdict], rule: Rule) -> Finding<Option<Batch>> {
    let mut open = Vec::new();
    for (event, verdict) in batch.iter().zip(verdicts) {
        match verdict {
            Verdict::Delivered => {}
            Verdict::Unconfirmed => open.push(event.clone()),
            Verdict::Undeliverable(refusal) => {
                return Err(blamed(rule, "undeliverable", event, refusal));
            }
            Verdict::Refused(refusal) => return Err(blamed(rule, "refused", event, refusal)),
        }
    }
    Ok(Batch::new(open))
}

/// An event was blamed that the destination would take.
pub(super) fn blamed(rule: Rule, word: &str, event: &Event, refusal: &Refusal) -> Stop {
    let position = event.position();
    let seen = format!("the event at {position}, which can be delivered, is {word}: {refusal}");
    Stop::broken(rule, seen)
}

/// An error in a sentence.
pub(super) fn describe(error: &SinkError) -> String {
    format!("an error of kind `{}` ({})", error.kind(), error.chain())
}

/// Awaits a call of the sink's.
async fn bounded<T>(
    call: &str,
    deadline: Duration,
    margin: Duration,
    rule: Rule,
    future: impl Future<Output = T> + Send,
) -> Finding<T> {
    match timeout(deadline + margin, AssertUnwindSafe(future).catch_unwind()).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(panic)) => Err(Stop::own(format!(
            "`{call}` panicked: {}",
            panic_text(&*panic)
        ))),
        Err(_) => Err(Stop::broken(
            rule,
            format!("`{call}` had {deadline:?}, and had not returned by then"),
        )),
    }
}

/// What a panic says.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
