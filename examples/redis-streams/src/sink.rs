//! The connector and the sink, which act.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use outbox_sinks::{
    Batch, Connector, Delivery, Event, Session, Sink, SinkError, Verdict, async_trait,
};
use tokio::time::{Instant, timeout};

use crate::classify::{Failure, Trouble};
use crate::config::Config;
use crate::connection::Connection;
use crate::entry::Entry;
use crate::outcome;

/// How long `probe` may take in all.
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);
/// A connection that was idle for longer is asked whether it still answers before a batch is sent: the
/// server, or something in between, may have closed it.
const IDLE: Duration = Duration::from_secs(5);

/// A configured server.
#[derive(Debug)]
pub(crate) struct RedisConnector {
    config: Arc<Config>,
}

impl RedisConnector {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config: Arc::new(config),
        }
    }
}

#[async_trait]
impl Connector for RedisConnector {
    async fn probe(&self) -> Result<(), SinkError> {
        connect(&self.config, PROBE_TIMEOUT).await.map(drop)
    }

    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        let connection = connect(&self.config, session.delivery_timeout).await?;
        Ok(Box::new(RedisSink {
            config: Arc::clone(&self.config),
            delivery_timeout: session.delivery_timeout,
            connection: Some((connection, Instant::now())),
        }))
    }

    /// The stream: Redis keeps the order within one, and nobody sees an order between two. An event
    /// that has none can't be sent in any case, and goes by its subject.
    fn key<'e>(&self, event: &'e Event) -> Cow<'e, str> {
        let stream = self.config.stream.render(event);
        stream.map_or_else(|_| Cow::Borrowed(event.subject()), Cow::Owned)
    }
}

/// The time left for the work itself, so that a call returns before the runtime drops it.
fn budget(whole: Duration) -> Duration {
    whole - whole / 10
}

async fn connect(config: &Config, whole: Duration) -> Result<Connection, SinkError> {
    let connecting = async {
        let mut connection = Connection::open(config).await?;
        if let Some(stream) = config.stream.as_fixed() {
            connection.check_stream(stream).await?;
        }
        Ok(connection)
    };
    timeout(budget(whole), connecting)
        .await
        .unwrap_or_else(|_| Err(Failure::Timeout.into()))
        .map_err(|trouble: Trouble| trouble.error(format!("connect to {}", config.address())))
}

struct RedisSink {
    config: Arc<Config>,
    delivery_timeout: Duration,
    /// With the time of its last answer. `None` after a delivery that failed.
    connection: Option<(Connection, Instant)>,
}

#[async_trait]
impl Sink for RedisSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        // Taken out, so that a call that is dropped half-way leaves no connection behind.
        let connection = self.connection.take();
        let delivering = self.deliver_on(connection, batch);
        let (delivery, connection) = timeout(budget(self.delivery_timeout), delivering)
            .await
            .unwrap_or_else(|_| Err(Trouble::from(Failure::Timeout).error("add to Redis")))?;
        self.connection = connection.map(|connection| (connection, Instant::now()));
        Ok(delivery)
    }
}

impl RedisSink {
    /// Delivers a batch as one transaction. The connection comes back if it can be used again.
    async fn deliver_on(
        &self,
        connection: Option<(Connection, Instant)>,
        batch: &Batch,
    ) -> Result<(Delivery, Option<Connection>), SinkError> {
        let mut connection = self.usable(connection).await?;
        let mut verdicts = vec![Verdict::Unconfirmed; batch.len()];
        let mut sent = Vec::with_capacity(batch.len());
        let mut commands = redis::Pipeline::with_capacity(batch.len() + 2);
        commands.cmd("MULTI");
        for (verdict, event) in verdicts.iter_mut().zip(batch) {
            match Entry::of(event, &self.config) {
                Ok(Entry { stream, command }) => {
                    commands.add_command(command);
                    sent.push((verdict, stream));
                }
                Err(refusal) => *verdict = Verdict::Undeliverable(refusal),
            }
        }
        commands.cmd("EXEC");
        if sent.is_empty() {
            return Ok((Delivery::from_verdicts(verdicts), Some(connection)));
        }
        let answers = connection
            .send(&commands)
            .await
            .map_err(|trouble| trouble.error("add to Redis"))?;
        let streams: Vec<_> = sent.iter().map(|(_, stream)| stream.as_str()).collect();
        let one_stream = self.config.stream.as_fixed().is_some();
        let outcome = outcome::read(&streams, one_stream, answers);
        for ((slot, _), verdict) in sent.into_iter().zip(outcome.verdicts) {
            *slot = verdict;
        }
        let nothing_known = verdicts.iter().all(|v| *v == Verdict::Unconfirmed);
        match outcome.trouble {
            None => Ok((Delivery::from_verdicts(verdicts), Some(connection))),
            // What got through is told first; the next delivery, which begins with what did not, on a
            // connection of its own, tells why.
            Some(_) if !nothing_known => Ok((Delivery::from_verdicts(verdicts), None)),
            Some(trouble) => Err(trouble.error("add to Redis")),
        }
    }

    async fn usable(
        &self,
        connection: Option<(Connection, Instant)>,
    ) -> Result<Connection, SinkError> {
        if let Some((mut connection, used_at)) = connection
            && (used_at.elapsed() < IDLE || connection.answers().await)
        {
            return Ok(connection);
        }
        connect(&self.config, self.delivery_timeout).await
    }
}
