//! A sink for the ledger: honest, or wrong in one way.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a sink does everything right but for its own fault"
)]

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use outbox_sinks::{
    Batch, BatchLimits, Connector, Delivery, Event, Position, Progress, Refusal, Session, Sink,
    SinkError, Upcoming, Verdict, async_trait,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::connection::Connection;
use super::faults::{Fault, send_later};

/// The largest data that the sink sends.
pub(crate) const LARGEST: usize = 100_000;

/// How much later than its deadline a sink returns.
const LATE: Duration = Duration::from_millis(300);

/// How long a slow client is away after an outage.
const RECONNECT: Duration = Duration::from_secs(2);

/// What all sinks of one test share; only wrong ones look at it.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    newest_token: i64,
    last_place: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct LedgerConnector {
    pub(crate) shared: Arc<Mutex<Shared>>,
    pub(crate) server: SocketAddr,
    pub(crate) place: String,
    pub(crate) password: &'static str,
    pub(crate) fault: Fault,
    pub(crate) timeout: Duration,
    /// What one that is wrong takes for delivered, until its process ends.
    pub(crate) known: Arc<Mutex<HashSet<String>>>,
}

#[derive(Debug)]
pub(crate) struct LedgerSink {
    connector: LedgerConnector,
    token: i64,
    connection: Option<Connection>,
    failed: bool,
    /// When a slow client is back after an outage.
    back_at: Option<Instant>,
    /// The end of what one that is wrong has begun ahead.
    begun: Option<Position>,
    /// What is still to be sent when the sink closes.
    unsent: Option<Batch>,
    /// What it sends when nobody looks.
    later: JoinSet<()>,
}

impl LedgerConnector {
    async fn connect(&self) -> Result<Connection, SinkError> {
        let last = self.shared.lock().unwrap().last_place.clone();
        let last = last.filter(|_| self.fault == Fault::WritesToTheLastPlace);
        let place = last.unwrap_or_else(|| self.place.clone());
        let connecting = Connection::open(self.server, &place, self.password);
        let (connection, answer) = connecting.await.map_err(|error| self.outage(error))?;
        match answer.as_str() {
            "OK" => Ok(connection),
            "DENIED" | "ABSENT" if self.fault == Fault::GivesNoAdvice => {
                Err(SinkError::misconfigured(format!("open: {answer}"), ""))
            }
            "DENIED" => Err(SinkError::misconfigured("log in", "check the password")),
            "ABSENT" => Err(SinkError::misconfigured("open the place", "create it")),
            _ => Err(SinkError::unavailable("open the place: an odd answer")),
        }
    }

    fn outage(&self, error: io::Error) -> SinkError {
        match self.fault {
            Fault::CallsAnOutageFailed => SinkError::from(error),
            Fault::CallsAnOutageMisconfigured => {
                SinkError::misconfigured("talk to the ledger", "repair it").with_source(error)
            }
            Fault::LeaksThePassword => {
                SinkError::unavailable(format!("log in with {}", self.password))
            }
            _ => SinkError::unavailable("talk to the ledger").with_source(error),
        }
    }
}

#[async_trait]
impl Connector for LedgerConnector {
    async fn probe(&self) -> Result<(), SinkError> {
        if self.fault == Fault::ProbesNothing {
            return Ok(());
        }
        let late = || self.outage(io::ErrorKind::TimedOut.into());
        let mut connection = timeout(self.timeout, self.connect())
            .await
            .map_err(|_| late())??;
        if self.fault == Fault::ProbesByWriting {
            connection.put("probe", b"{}").await?;
        }
        Ok(())
    }

    /// Connects when it is needed.
    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        let mut shared = self.shared.lock().unwrap();
        shared.newest_token = session.token;
        shared.last_place = Some(self.place.clone());
        Ok(Box::new(LedgerSink::new(self.clone(), session.token)))
    }

    fn stores_position(&self) -> bool {
        self.fault == Fault::CallsAnOutageFailedWhenAsked
    }

    fn batch_limits(&self) -> BatchLimits {
        let limits = BatchLimits::default();
        match self.fault {
            Fault::TakesNoEvents => limits.max_events(0),
            _ => limits,
        }
    }
}

#[async_trait]
impl Sink for LedgerSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let fault = self.connector.fault;
        let newest = self.connector.shared.lock().unwrap().newest_token;
        if fault == Fault::BlamesALateOwner && self.token < newest {
            return Err(SinkError::failed("somebody else has written there"));
        }
        let deadline = match fault {
            Fault::HasNoDeadline | Fault::LoopsUntilItWorks => Duration::from_secs(600),
            Fault::ReturnsALittleLate => self.connector.timeout + LATE,
            _ => self.connector.timeout * 8 / 10,
        };
        if self.back_at.is_some_and(|back_at| Instant::now() < back_at) {
            return Err(SinkError::unavailable("wait until the client is back"));
        }
        let writing = timeout(deadline, self.write_as_often_as_it_likes(batch)).await;
        let late = || Err(self.connector.outage(io::ErrorKind::TimedOut.into()));
        let outcome = writing.unwrap_or_else(|_| late());
        self.failed = outcome.is_err();
        if self.failed && fault == Fault::TakesItsTimeToReconnect {
            self.back_at = Some(Instant::now() + RECONNECT);
        }
        if self.failed && fault == Fault::FlushesWhenItCloses {
            self.unsent = Some(batch.clone());
        }
        match outcome {
            Ok(verdicts) => Ok(fault.answer(verdicts)),
            Err(error) => fault.hide(error, batch, &self.connector, &mut self.later),
        }
    }

    async fn deliver_ahead(
        &mut self,
        batch: &Batch,
        next: &mut Upcoming<'_>,
    ) -> Result<Delivery, SinkError> {
        if self.begun.take() == Some(batch.end()) {
            return Ok(Delivery::All);
        }
        let next = next.batch().now_or_never();
        let delivery = self.deliver(batch).await;
        match (self.connector.fault, next) {
            (Fault::ForgetsWhatItBegan, Some(next)) => self.begun = Some(next.end()),
            (Fault::SendsWhatItBeganLater, Some(next)) if delivery.is_err() => {
                let sending = send_later(next, self.connector.clone());
                self.later.spawn(sending);
            }
            _ => {}
        }
        delivery
    }

    async fn progress(&mut self) -> Result<Option<Progress>, SinkError> {
        let asking = timeout(self.connector.timeout * 8 / 10, self.connector.connect());
        match asking.await {
            Ok(Ok(_)) => Ok(None),
            Ok(Err(error)) if error.advice().is_some() => Err(error),
            Ok(Err(_)) | Err(_) => Err(SinkError::failed("ask how far the ledger has come")),
        }
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        if self.connector.fault == Fault::HangsInClose {
            sleep(Duration::from_secs(600)).await;
        }
        if let Some(batch) = self.unsent.take() {
            self.write(&batch).await?;
        }
        Ok(())
    }
}

impl LedgerSink {
    pub(crate) fn new(connector: LedgerConnector, token: i64) -> Self {
        Self {
            token,
            connector,
            connection: None,
            failed: false,
            back_at: None,
            unsent: None,
            begun: None,
            later: JoinSet::new(),
        }
    }

    async fn write_as_often_as_it_likes(
        &mut self,
        batch: &Batch,
    ) -> Result<Vec<Verdict>, SinkError> {
        let attempts = match self.connector.fault {
            Fault::ResendsAfterALostAnswer => 2,
            Fault::LoopsUntilItWorks => usize::MAX,
            _ => 1,
        };
        let mut attempt = 1;
        loop {
            let outcome = self.write(batch).await;
            if attempt == attempts || outcome.is_ok() {
                return outcome;
            }
            attempt += 1;
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Writes one event after the other, and syncs them all.
    pub(crate) async fn write(&mut self, batch: &Batch) -> Result<Vec<Verdict>, SinkError> {
        let fault = self.connector.fault;
        // A connection is put back when all went well.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connector.connect().await?,
        };
        let mut verdicts = vec![Verdict::Delivered; batch.len()];
        let mut blocked = HashSet::new();
        let mut order: Vec<usize> = (0..batch.len()).collect();
        if fault == Fault::ReordersAKey || (fault == Fault::ReordersOnRetry && self.failed) {
            order.reverse();
        }
        for index in order {
            let event = &batch[index];
            verdicts[index] = if let Some(refusal) = unfit(event) {
                Verdict::Undeliverable(refusal)
            } else if blocked.contains(event.subject()) {
                Verdict::Unconfirmed
            } else if self.put(&mut connection, event).await? {
                Verdict::Delivered
            } else {
                if fault != Fault::FollowsARefusedEvent {
                    blocked.insert(event.subject());
                }
                Verdict::Refused(fault.refusal(event))
            };
        }
        if fault != Fault::AcknowledgesBeforeItIsDurable {
            let synced = connection.sync().await;
            synced.map_err(|error| self.connector.outage(error))?;
        }
        self.connection = Some(connection);
        Ok(verdicts)
    }

    /// Whether the ledger took it.
    async fn put(&self, connection: &mut Connection, event: &Event) -> Result<bool, SinkError> {
        let fault = self.connector.fault;
        if fault == Fault::PanicsOnAnOddEvent {
            assert!(!event.subject().is_empty(), "no subject");
        }
        let token = match event.replay() {
            0 => event.id().to_owned(),
            _ if fault == Fault::DropsReplays => event.id().to_owned(),
            count => format!("{}#{count}", event.id()),
        };
        let remembers = fault == Fault::RemembersInItsConnector;
        if remembers && !self.connector.known.lock().unwrap().insert(token.clone()) {
            return Ok(true);
        }
        if event.replay() > 0 && fault == Fault::SendsReplaysTwice {
            connection.put(&token, event.payload().as_bytes()).await?;
        }
        let answer = connection.put(&token, fault.body(event).as_bytes()).await;
        let answer = answer.map_err(|error| self.connector.outage(error))?;
        Ok(answer == "OK")
    }
}

/// Why an event can never be sent, if it can't.
fn unfit(event: &Event) -> Option<Refusal> {
    if let Some(defect) = event.defect() {
        return Some(Refusal::new("MALFORMED_PAYLOAD", defect));
    }
    (event.data().len() > LARGEST).then(|| Refusal::new("TOO_LARGE", "more than 100,000 bytes"))
}
