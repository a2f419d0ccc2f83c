//! A destination that does what a test scripts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox_sinks::{
    Batch, Connector, Delivery, Refusal, Session, Sink, SinkError, Upcoming, Verdict, async_trait,
};
use tokio::time::{Instant, sleep_until, timeout_at};

type Answer = Box<dyn FnOnce(&Batch) -> Result<Delivery, SinkError> + Send>;
type Rule = Arc<dyn Fn(&Batch) -> Result<Delivery, SinkError> + Send + Sync>;

/// A destination that answers as scripted, and takes everything once the script is over.
#[derive(Clone, Default)]
pub(crate) struct Destination(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    rule: Option<Rule>,
    frozen: bool,
    ahead: bool,
    begun: Vec<Vec<u64>>,
    deliveries: Vec<Vec<u64>>,
    apart: Vec<Vec<u64>>,
    opened: Vec<i64>,
    taken: Vec<u64>,
    slow: Duration,
}

impl Destination {
    pub(crate) fn answer(
        &self,
        answer: impl FnOnce(&Batch) -> Result<Delivery, SinkError> + Send + 'static,
    ) {
        self.0.lock().unwrap().answers.push_back(Box::new(answer));
    }

    /// Answers like this whenever the script is over.
    pub(crate) fn rule(
        &self,
        rule: impl Fn(&Batch) -> Result<Delivery, SinkError> + Send + Sync + 'static,
    ) {
        self.0.lock().unwrap().rule = Some(Arc::new(rule));
    }

    /// Refuses these transactions by themselves.
    pub(crate) fn refuse(&self, refused: &'static [u64]) {
        self.rule(move |batch| {
            let verdicts = batch.iter().map(|event| {
                if refused.contains(&event.position().txid.0) {
                    Verdict::Refused(Refusal::new("NO", "never"))
                } else {
                    Verdict::Delivered
                }
            });
            Ok(Delivery::from_verdicts(verdicts.collect()))
        });
    }

    /// Takes everything from now on.
    pub(crate) fn mend(&self) {
        self.0.lock().unwrap().rule = None;
    }

    pub(crate) fn freeze(&self) {
        self.0.lock().unwrap().frozen = true;
    }

    /// Begins with the next batch while it delivers one, from now on.
    pub(crate) fn begin_ahead(&self) {
        self.0.lock().unwrap().ahead = true;
    }

    /// The transactions of each batch that was begun ahead.
    pub(crate) fn begun(&self) -> Vec<Vec<u64>> {
        self.0.lock().unwrap().begun.clone()
    }

    /// The transactions of each delivery apart from the flow.
    pub(crate) fn apart(&self) -> Vec<Vec<u64>> {
        self.0.lock().unwrap().apart.clone()
    }

    pub(crate) fn take(&self, slow: Duration) {
        self.0.lock().unwrap().slow = slow;
    }

    /// The transactions of each delivery, in order.
    pub(crate) fn deliveries(&self) -> Vec<Vec<u64>> {
        self.0.lock().unwrap().deliveries.clone()
    }

    /// The transactions of what it has acknowledged, in that order.
    pub(crate) fn taken(&self) -> Vec<u64> {
        self.0.lock().unwrap().taken.clone()
    }

    /// The tokens under which a sink was opened.
    pub(crate) fn opened(&self) -> Vec<i64> {
        self.0.lock().unwrap().opened.clone()
    }
}

#[async_trait]
impl Connector for Destination {
    async fn probe(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        self.0.lock().unwrap().opened.push(session.token);
        Ok(Box::new(self.clone()))
    }

    fn frozen_ranges(&self) -> bool {
        self.0.lock().unwrap().frozen
    }
}

#[async_trait]
impl Sink for Destination {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        self.deliver_ahead(batch, &mut Upcoming::none()).await
    }

    async fn deliver_ahead(
        &mut self,
        batch: &Batch,
        next: &mut Upcoming<'_>,
    ) -> Result<Delivery, SinkError> {
        let (answer, rule, slow, ahead) = {
            let mut script = self.0.lock().unwrap();
            let transactions = transactions(batch);
            if batch.is_apart() {
                script.apart.push(transactions.clone());
            }
            script.deliveries.push(transactions);
            let answer = script.answers.pop_front();
            (answer, script.rule.clone(), script.slow, script.ahead)
        };
        let until = Instant::now() + slow;
        if ahead && let Ok(next) = timeout_at(until, next.batch()).await {
            let mut script = self.0.lock().unwrap();
            script.begun.push(transactions(&next));
        }
        sleep_until(until).await;
        let answer = match (answer, rule) {
            (Some(answer), _) => answer(batch),
            (None, Some(rule)) => rule(batch),
            (None, None) => Ok(Delivery::All),
        };
        let taken = |n: usize| match &answer {
            Ok(Delivery::All) => true,
            Ok(Delivery::Each(verdicts)) => verdicts[n] == Verdict::Delivered,
            Ok(_) | Err(_) => false,
        };
        let events = batch.iter().enumerate().filter(|(n, _)| taken(*n));
        let transactions = events.map(|(_, event)| event.position().txid.0);
        self.0.lock().unwrap().taken.extend(transactions);
        answer
    }
}

fn transactions(batch: &Batch) -> Vec<u64> {
    batch.iter().map(|event| event.position().txid.0).collect()
}
