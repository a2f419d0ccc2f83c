//! A librdkafka producer with a thread that polls it, and its life: made for a
//! session, given up after the first failure, never blocking a worker thread.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::metadata::Metadata;
use rdkafka::producer::{
    BaseRecord, Producer as _, ProducerContext, PurgeConfig, ThreadedProducer,
};
use tokio::time::Instant;

use super::budget::Budget;
use super::known::Known;
use super::log::ClientLog;
use super::message::Message;
use super::options::Options;
use super::reports::{Condition, Reports, Side, Ticket, Waited};

/// What librdkafka's threads call.
pub(super) struct Context {
    reports: Arc<Reports>,
    log: ClientLog,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
        self.reports.condition(code, self.log.scrub(reason));
        if code == RDKafkaErrorCode::Fatal {
            self.reports.trouble(Side::Even);
            self.reports.trouble(Side::Odd);
        }
    }

    fn stats_raw(&self, _statistics: &[u8]) {}
}

impl ProducerContext for Context {
    /// The message's [`Ticket`].
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: usize) {
        let failure = result.as_ref().err().map(|(error, _)| error);
        self.reports.count(Ticket::from_opaque(opaque), failure);
    }
}

/// A running producer. Dropping it takes back whatever is not reported yet.
pub(super) struct Producer {
    /// `None` only while it is being dropped.
    client: Option<ThreadedProducer<Context>>,
    reports: Arc<Reports>,
    /// Whose partitions know its sequence numbers.
    pub(super) known: Known,
}

/// What became of one attempt to hand a message over.
pub(super) enum Handed {
    /// librdkafka has it; a report will follow.
    Over,
    /// The queue is full.
    NoRoom,
    /// It was not taken.
    Refused(KafkaError),
}

impl Producer {
    /// Makes a producer. It connects in the background.
    pub(super) async fn start(
        options: &Options,
        budget: &Budget,
        log: &ClientLog,
    ) -> Result<Self, KafkaError> {
        let config = options.within(budget);
        let log = log.clone();
        // Reading certificates and starting threads takes milliseconds.
        let started = tokio::task::spawn_blocking(move || Self::create(&config, log));
        started.await.unwrap_or(Err(KafkaError::Canceled))
    }

    fn create(config: &ClientConfig, log: ClientLog) -> Result<Self, KafkaError> {
        let reports = Arc::new(Reports::default());
        let context = Context {
            reports: Arc::clone(&reports),
            log,
        };
        let client = config.create_with_context(context)?;
        Ok(Self {
            client: Some(client),
            reports,
            known: Known::default(),
        })
    }

    fn client(&self) -> &ThreadedProducer<Context> {
        self.client
            .as_ref()
            .expect("the client is there until the producer is dropped")
    }

    /// Hands a message over, which copies it.
    pub(super) fn send(&self, ticket: Ticket, message: Message<'_>) -> Handed {
        let record = BaseRecord {
            topic: message.topic,
            partition: None,
            payload: Some(message.body),
            key: message.key,
            timestamp: None,
            headers: Some(message.headers),
            delivery_opaque: ticket.to_opaque(),
        };
        self.reports.expect(ticket.side);
        let Err((error, _)) = self.client().send(record) else {
            return Handed::Over;
        };
        self.reports.expect_not(ticket.side);
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) {
            Handed::NoRoom
        } else {
            Handed::Refused(error)
        }
    }

    /// Whether anything of this batch has failed, so that nothing more of it may be sent.
    pub(super) fn is_troubled(&self, side: Side) -> bool {
        self.reports.is_troubled(side)
    }

    /// Waits for room in the queue. False if it is pointless to go on.
    pub(super) async fn make_room(&self, side: Side, deadline: Instant) -> bool {
        /// A report comes a moment before its message leaves the queue.
        const MOMENT: Duration = Duration::from_millis(1);
        let half = self.reports.pending(side) / 2;
        let waited = self.reports.wait(side, half, true, deadline).await;
        if self.reports.pending(side) == 0 {
            tokio::time::sleep(MOMENT).await;
        }
        waited == Waited::Done && Instant::now() < deadline
    }

    /// Waits until every message of a batch is reported. From the first failure on, what is
    /// not sent is taken back, of the other batch as well; at `give_up` also what was sent and
    /// not answered. False if reports are still missing at `last`.
    pub(super) async fn settle(&self, side: Side, give_up: Instant, last: Instant) -> bool {
        /// A request that fails after another one puts its messages into the queue again.
        const AGAIN: Duration = Duration::from_millis(50);
        let mut waited = self.reports.wait(side, 0, true, give_up).await;
        if waited == Waited::Done && !self.is_troubled(side) {
            return true;
        }
        waited = self.both(Instant::now()).await;
        while waited != Waited::Done && Instant::now() < give_up {
            self.take_back(PurgeConfig::default().queue());
            waited = self.both(give_up.min(Instant::now() + AGAIN)).await;
        }
        if waited == Waited::Done {
            return true;
        }
        self.take_back(PurgeConfig::default().queue().inflight());
        self.both(last).await == Waited::Done
    }

    /// Waits until nothing at all is pending.
    async fn both(&self, deadline: Instant) -> Waited {
        match self.reports.wait(Side::Even, 0, false, deadline).await {
            Waited::Done => self.reports.wait(Side::Odd, 0, false, deadline).await,
            waited @ (Waited::Troubled | Waited::Late) => waited,
        }
    }

    fn take_back(&self, what: PurgeConfig) {
        self.client().purge(what.non_blocking());
    }

    /// What failed of a batch since the last call, by index.
    pub(super) fn take_failures(&self, side: Side) -> Vec<(usize, KafkaError)> {
        self.reports.take_failures(side)
    }

    /// What the client last said of itself, a fatal error first.
    pub(super) fn take_condition(&self) -> Option<Condition> {
        let fatal = self.client().client().fatal_error();
        let noted = self.reports.take_condition();
        match fatal {
            Some((code, _)) => Some(Condition {
                code,
                reason: noted.map_or_else(String::new, |noted| noted.reason),
            }),
            None => noted,
        }
    }

    /// Asks for the cluster's topics. Unlike asking for one topic, this never makes
    /// a broker create it.
    pub(super) async fn metadata(self, timeout: Duration) -> (Result<Metadata, KafkaError>, Self) {
        self.ask(None, timeout).await
    }

    /// Lets it connect, and get the number that an idempotent producer needs. The client asks
    /// for that as soon as it has found its way, and otherwise only every 500 ms: the first
    /// batch of a producer took 600 ms, and takes 200. Whatever stands in the way shows when
    /// it delivers.
    pub(super) async fn greet(self, topic: &str, timeout: Duration) -> Self {
        let (_metadata, greeted) = self.ask(Some(topic.to_owned()), timeout).await;
        greeted
    }

    async fn ask(
        self,
        topic: Option<String>,
        timeout: Duration,
    ) -> (Result<Metadata, KafkaError>, Self) {
        let asked = tokio::task::spawn_blocking(move || {
            let client = self.client().client();
            (client.fetch_metadata(topic.as_deref(), timeout), self)
        });
        asked.await.expect("asking for metadata does not panic")
    }

    /// Ends it and waits for its threads.
    pub(super) async fn stop(mut self) {
        let client = self.client.take();
        // A panic in there leaves nothing to do.
        let _ended = tokio::task::spawn_blocking(move || drop(client)).await;
    }
}

/// Taking back is immediate; ending the threads takes 100 ms and longer, so a
/// blocking thread does it. The runtime waits for that thread when it shuts down.
impl Drop for Producer {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        client.purge(PurgeConfig::default().queue().inflight().non_blocking());
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(client))),
            Err(_) => drop(client),
        }
    }
}
