//! The connector, the sink, and the loop that sends a batch.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use outbox::Event;
use tokio::time::{Instant, timeout_at};

use super::checked::Config;
use super::classify::{self, Class, Failure};
use super::connection::Connection;
use super::message::Outgoing;
use super::stream::{self, Missing};
use super::window::Window;
use crate::{
    Batch, BatchLimits, Connector, Delivery, PROBE_TIMEOUT, Refusal, Session, Sink, SinkError,
    Verdict,
};

#[derive(Debug)]
pub(super) struct NatsConnector {
    name: String,
    config: Arc<Config>,
}

impl NatsConnector {
    pub(super) fn new(name: &str, config: Config) -> Self {
        let (name, config) = (name.to_owned(), Arc::new(config));
        Self { name, config }
    }
}

#[async_trait]
impl Connector for NatsConnector {
    async fn probe(&self) -> Result<(), SinkError> {
        let budget = Budget::new(PROBE_TIMEOUT, self.config.ack_timeout);
        connect(&self.name, &self.config, &budget, Missing::Report).await?;
        Ok(())
    }

    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        let mut sink = NatsSink {
            name: self.name.clone(),
            config: Arc::clone(&self.config),
            delivery_timeout: session.delivery_timeout,
            connection: None,
        };
        sink.connection = Some(sink.connect(&sink.budget()).await?);
        Ok(Box::new(sink))
    }

    /// At the end of a batch the window runs empty, one key after the other: it pays to have
    /// few ends.
    fn batch_limits(&self) -> BatchLimits {
        BatchLimits {
            max_events: 5_000,
            ..BatchLimits::default()
        }
    }

    /// The key of the window. A window of one keeps the order of all events, whatever
    /// their keys. One that lacks a field of the template can't be sent in any case, and
    /// goes by its subject.
    fn key<'e>(&self, event: &'e Event) -> Cow<'e, str> {
        if self.config.window == 1 {
            return Cow::Borrowed("");
        }
        let key = self.config.key.render(event);
        key.map_or_else(|_| Cow::Borrowed(event.subject()), Cow::Owned)
    }
}

struct NatsSink {
    name: String,
    config: Arc<Config>,
    delivery_timeout: Duration,
    /// `None` after a delivery that failed.
    connection: Option<Connection>,
}

impl NatsSink {
    fn budget(&self) -> Budget {
        Budget::new(self.delivery_timeout, self.config.ack_timeout)
    }

    async fn connect(&self, budget: &Budget) -> Result<Connection, SinkError> {
        connect(&self.name, &self.config, budget, Missing::Create).await
    }
}

#[async_trait]
impl Sink for NatsSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let budget = self.budget();
        // Taken out, so that a call that is dropped half-way leaves no connection behind.
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect(&budget).await?,
        };
        let mut pass = Pass::new(&connection, &self.config, batch);
        pass.run(&budget).await;
        let Pass {
            verdicts, failure, ..
        } = pass;
        match failure {
            None => self.connection = Some(connection),
            // Whatever got through is told first; the next delivery, which begins with
            // what did not, tells why.
            Some(error)
                if verdicts
                    .iter()
                    .all(|verdict| *verdict == Verdict::Unconfirmed) =>
            {
                return Err(error);
            }
            Some(_) => {}
        }
        Ok(Delivery::from_verdicts(verdicts))
    }
}

/// How the time of one call is divided, so that it ends before the runtime drops it.
struct Budget {
    /// Nothing new is begun from then on.
    send_until: Instant,
    /// How long one acknowledgement or request is awaited.
    ack_timeout: Duration,
}

impl Budget {
    fn new(whole: Duration, ack_timeout: Duration) -> Self {
        // What was begun last may wait for its acknowledgement, and then once more for
        // JetStream to say why there was none; a tenth is left for everything else.
        let ack_timeout = ack_timeout.min(whole / 4);
        let send_until = Instant::now() + whole - whole / 10 - 2 * ack_timeout;
        Self {
            send_until,
            ack_timeout,
        }
    }

    fn is_spent(&self) -> bool {
        Instant::now() >= self.send_until
    }
}

async fn connect(
    name: &str,
    config: &Config,
    budget: &Budget,
    missing: Missing,
) -> Result<Connection, SinkError> {
    let connecting = async {
        let connection = Connection::open(name, config, budget.ack_timeout).await?;
        stream::check(&connection, config, missing).await?;
        Ok(connection)
    };
    timeout_at(budget.send_until, connecting)
        .await
        .unwrap_or_else(|_| Err(SinkError::unavailable("connect to NATS: no answer in time")))
}

/// One pass over a batch on one connection.
struct Pass<'a> {
    connection: &'a Connection,
    config: &'a Config,
    events: &'a [Event],
    window: Window,
    verdicts: Vec<Verdict>,
    /// The first failure that is no single event's. Nothing is sent after it.
    failure: Option<SinkError>,
}

impl<'a> Pass<'a> {
    fn new(connection: &'a Connection, config: &'a Config, events: &'a [Event]) -> Self {
        // An event without a key is found out when its turn comes; until then it stands
        // in the line of those whose key is empty.
        let keys = events
            .iter()
            .map(|event| config.key.render(event).unwrap_or_default());
        Self {
            connection,
            config,
            events,
            window: Window::new(keys, config.window),
            verdicts: vec![Verdict::Unconfirmed; events.len()],
            failure: None,
        }
    }

    /// Sends what the window lets through, until all is settled, the time is up or the
    /// delivery fails; then awaits what is still in flight.
    async fn run(&mut self, budget: &Budget) {
        let mut acks = FuturesUnordered::new();
        loop {
            while self.failure.is_none()
                && !budget.is_spent()
                && let Some(index) = self.window.next()
            {
                let message = match self.message(index) {
                    Ok(message) => message,
                    Err(refusal) => {
                        self.settle(index, Verdict::Undeliverable(refusal));
                        continue;
                    }
                };
                let sent = Sent::of(&message);
                match self.publish(message).await {
                    Ok(ack) => acks.push(async move { (index, sent, ack.await) }),
                    Err(error) => self.blame(index, &sent, error, budget).await,
                }
            }
            let Some((index, sent, answer)) = acks.next().await else {
                return;
            };
            match answer {
                // A repetition that JetStream dropped is stored already.
                Ok(_ack) => self.settle(index, Verdict::Delivered),
                Err(error) => self.blame(index, &sent, error, budget).await,
            }
        }
    }

    fn message(&self, index: usize) -> Result<Outgoing, Refusal> {
        let event = self
            .events
            .get(index)
            .expect("the window gives indices of this batch");
        self.config.key.render(event)?;
        Outgoing::of(event, self.config)
    }

    async fn publish(&self, message: Outgoing) -> Result<PublishAckFuture, PublishError> {
        let publish = PublishMessage::build()
            .headers(message.headers)
            .payload(message.body);
        self.connection
            .jetstream
            .send_publish(message.subject, publish)
            .await
    }

    fn settle(&mut self, index: usize, verdict: Verdict) {
        let passed = matches!(verdict, Verdict::Delivered | Verdict::Undeliverable(_));
        self.window.settle(index, passed);
        if let Some(slot) = self.verdicts.get_mut(index) {
            *slot = verdict;
        }
    }

    /// Settles an event that was not acknowledged, and stops the pass if that says
    /// nothing about this event alone.
    async fn blame(&mut self, index: usize, sent: &Sent, cause: PublishError, budget: &Budget) {
        let jetstream = &self.connection.jetstream;
        let mut failure = Failure::of_publish(&cause);
        if failure == Failure::Publish(PublishErrorKind::StreamNotFound) && self.failure.is_none() {
            failure = stream::why_silent(jetstream, &sent.subject).await;
        }
        let verdict = match classify::classify(failure).0 {
            Class::Undeliverable => {
                // The library's own text names the size and the server's limit.
                let reason = format!("{} bytes with headers: {cause}", sent.size);
                Verdict::Undeliverable(Refusal::new("TOO_LARGE", reason))
            }
            Class::TooLarge => {
                let limit = if budget.is_spent() {
                    None
                } else {
                    stream::max_message_size(jetstream, &sent.subject).await
                };
                over_the_limit(sent.size, limit, &cause.to_string())
            }
            Class::Refused => Verdict::Refused(Refusal::new("REFUSED", cause.to_string())),
            Class::Batch(_) => {
                let error = classify::error(failure, "publish to NATS").with_source(cause);
                self.failure.get_or_insert(self.connection.explain(error));
                Verdict::Unconfirmed
            }
        };
        self.settle(index, verdict);
    }
}

/// What is kept of a message while its acknowledgement is awaited.
struct Sent {
    subject: String,
    size: usize,
}

impl Sent {
    fn of(message: &Outgoing) -> Self {
        Self {
            subject: message.subject.clone(),
            size: message.size,
        }
    }
}

/// A message that the stream found too large. It is beyond doubt only if the stream's own
/// settings say so: they may have been changed, or somebody else has answered.
fn over_the_limit(size: usize, limit: Option<i32>, answer: &str) -> Verdict {
    match limit.and_then(|limit| usize::try_from(limit).ok()) {
        Some(limit) if size > limit => Verdict::Undeliverable(Refusal::new(
            "TOO_LARGE",
            format!("{size} bytes with headers, more than the stream's max_msg_size of {limit}"),
        )),
        Some(_) | None => Verdict::Refused(Refusal::new(
            "TOO_LARGE",
            format!("{size} bytes with headers: {answer}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Position;

    fn key(extra: &str, subject: &str) -> String {
        let settings = format!(r#"{{"servers":["nats://localhost"]{extra}}}"#);
        let config = Config::check(serde_json::from_str(&settings).unwrap()).unwrap();
        let payload = format!(r#"{{"id":"e","type":"a.b","subject":"{subject}"}}"#);
        let event = Event::new(Position::new(1, 1), "a.b", payload);
        NatsConnector::new("test", config).key(&event).into_owned()
    }

    #[test]
    fn the_order_is_that_of_the_windows_keys() {
        assert_eq!(key("", "node/7"), "node/7");
        assert_eq!(key("", ""), "");
        assert_eq!(key(r#","key":"{type}""#, "node/7"), "a.b");
        assert_eq!(key(r#","key":"{tenantId}""#, "node/7"), "node/7");
    }

    #[test]
    fn an_event_is_undeliverable_only_if_the_streams_own_limit_says_so() {
        let over = |size, limit| over_the_limit(size, limit, "exceeds maximum allowed");
        assert!(matches!(
            over(101, Some(100)),
            Verdict::Undeliverable(refusal) if refusal.reason().contains("100")
        ));
        // No limit, one that would let it pass, one that nobody could tell.
        for limit in [Some(-1), Some(101), None] {
            assert!(
                matches!(over(101, limit), Verdict::Refused(refusal) if refusal.code() == "TOO_LARGE"),
                "{limit:?}"
            );
        }
    }

    #[test]
    fn a_window_of_one_has_one_order_over_everything() {
        let one = r#","window":1"#;
        assert_eq!(key(one, "node/7"), key(one, "node/8"));
    }
}
