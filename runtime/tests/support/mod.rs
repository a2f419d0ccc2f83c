//! A store in memory that fails on demand, and sinks that do what a test scripts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox::{Event, Filter, Position, Txid};
use outbox_runtime::settings::{
    BatchOverrides, RetrySettings, SinkSettings, Start, WorkerSettings,
};
use outbox_runtime::store::{
    Claim, Failure, Head, Lease, Owned, Page, PageEnd, Range, Reader, Store, StoreError,
};
use outbox_runtime::worker;
use outbox_sinks::{Batch, Connector, Delivery, Session, Sink, SinkError, async_trait};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The outbox of a test: every event of transaction `n` has position `(n, 1)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryStore(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) events: BTreeMap<Position, Event>,
    pub(crate) leases: BTreeMap<String, (Lease, Instant)>,
    pub(crate) cursor: Position,
    pub(crate) cursor_token: i64,
    pub(crate) attempts: u32,
    pub(crate) retry_at: Option<Instant>,
    pub(crate) last_error: Option<String>,
    pub(crate) saves: Vec<Position>,
    pub(crate) reads: usize,
    pub(crate) renewals_fail: bool,
    pub(crate) down: bool,
    pub(crate) history: u64,
    /// The most rows of one read; zero is no limit.
    pub(crate) max_scan: usize,
    pub(crate) foreign: bool,
}

impl MemoryStore {
    pub(crate) fn with_events(types: &[&str]) -> Arc<Self> {
        let store = Self::default();
        types
            .iter()
            .for_each(|event_type| store.publish(event_type));
        Arc::new(store)
    }

    pub(crate) fn publish(&self, event_type: &str) {
        let mut state = self.0.lock().unwrap();
        let txid = state
            .events
            .last_key_value()
            .map_or(1, |(position, _)| position.txid.0 + 1);
        let position = Position::new(txid, 1);
        let payload =
            format!(r#"{{"id":"evt_{txid}","type":"{event_type}","subject":"s/{txid}"}}"#);
        state
            .events
            .insert(position, Event::new(position, event_type, payload));
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    fn up(&self) -> Result<std::sync::MutexGuard<'_, State>, StoreError> {
        let state = self.0.lock().unwrap();
        if state.down {
            Err(StoreError::new("connection refused"))
        } else {
            Ok(state)
        }
    }
}

impl Store for MemoryStore {
    type Reader = MemoryReader;

    fn history(&self) -> u64 {
        self.look(|state| state.history)
    }

    async fn head(&self) -> Result<Head, StoreError> {
        let state = self.up()?;
        let newest = state.events.last_key_value().map(|(position, _)| *position);
        let horizon = Txid(newest.map_or(1, |newest| newest.txid.0 + 1));
        let history = state.history;
        Ok(Head {
            horizon,
            newest,
            history,
        })
    }

    async fn reader(&self, filter: &Filter) -> Result<MemoryReader, StoreError> {
        Ok(MemoryReader(self.clone(), filter.clone()))
    }

    async fn acquire(
        &self,
        sink: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, StoreError> {
        let mut state = self.up()?;
        let held = state
            .leases
            .get(sink)
            .map(|(lease, expires)| (lease.token, *expires));
        if held.is_some_and(|(_, expires)| expires > Instant::now()) {
            return Ok(None);
        }
        let token = held.map_or(1, |(token, _)| token + 1);
        let lease = Lease {
            sink: sink.to_owned(),
            holder: holder.to_owned(),
            token,
        };
        state
            .leases
            .insert(sink.to_owned(), (lease.clone(), Instant::now() + ttl));
        Ok(Some(lease))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Owned, StoreError> {
        let mut state = self.up()?;
        if state.renewals_fail {
            return Err(StoreError::new("no answer"));
        }
        match state.leases.get_mut(&lease.sink) {
            Some((held, expires)) if held == lease => {
                *expires = Instant::now() + ttl;
                Ok(Owned::Yes)
            }
            _ => Ok(Owned::No),
        }
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        if let Some((held, expires)) = self.up()?.leases.get_mut(&lease.sink)
            && held == lease
        {
            *expires = Instant::now();
        }
        Ok(())
    }

    async fn claim(&self, lease: &Lease, _start: Start) -> Result<Claim, StoreError> {
        let mut state = self.up()?;
        if state.cursor_token > lease.token {
            return Ok(Claim::Fenced);
        }
        state.cursor_token = lease.token;
        let retry_in = state
            .retry_at
            .map_or(Duration::ZERO, |at| at - Instant::now());
        Ok(Claim::Claimed {
            position: state.cursor,
            foreign: state.foreign,
            attempts: state.attempts,
            retry_in,
        })
    }

    async fn save(&self, lease: &Lease, position: Position) -> Result<Owned, StoreError> {
        let mut state = self.up()?;
        if state.cursor_token != lease.token {
            return Ok(Owned::No);
        }
        assert!(position >= state.cursor, "OB-2: the cursor moved back");
        (state.cursor, state.attempts, state.retry_at) = (position, 0, None);
        state.last_error = None;
        state.saves.push(position);
        Ok(Owned::Yes)
    }

    async fn save_failure(&self, lease: &Lease, failure: &Failure) -> Result<Owned, StoreError> {
        let mut state = self.up()?;
        if state.cursor_token != lease.token {
            return Ok(Owned::No);
        }
        state.cursor = failure.up_to.unwrap_or(state.cursor);
        state.attempts = failure.attempts;
        state.retry_at = Some(Instant::now() + failure.retry_in);
        state.last_error = Some(failure.error.clone());
        Ok(Owned::Yes)
    }
}

pub(crate) struct MemoryReader(MemoryStore, Filter);

impl Reader for MemoryReader {
    async fn read(&mut self, range: Range) -> Result<Page, StoreError> {
        let mut state = self.0.up()?;
        state.reads += 1;
        let (mut events, mut bytes, mut scanned, mut end) = (Vec::new(), 0, 0, range.after);
        let mut ended_by = PageEnd::Horizon;
        for (position, event) in &state.events {
            if *position <= range.after || position.txid >= range.horizon {
                continue;
            }
            scanned += 1;
            if events.len() == range.max_events || scanned == state.max_scan {
                ended_by = PageEnd::Rows;
                break;
            }
            bytes += event.payload().len();
            if bytes > range.max_bytes && !events.is_empty() {
                ended_by = PageEnd::Bytes;
                break;
            }
            end = *position;
            if self.1.takes(event) {
                events.push(event.clone());
            }
        }
        Ok(Page {
            events,
            end,
            ended_by,
        })
    }
}

type Answer = Box<dyn FnOnce(&Batch) -> Result<Delivery, SinkError> + Send>;

/// A destination that answers as scripted, and takes everything once the script is over.
#[derive(Clone, Default)]
pub(crate) struct Destination(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    deliveries: Vec<Vec<u64>>,
    opened: Vec<i64>,
    slow: Duration,
}

impl Destination {
    pub(crate) fn answer(
        &self,
        answer: impl FnOnce(&Batch) -> Result<Delivery, SinkError> + Send + 'static,
    ) {
        self.0.lock().unwrap().answers.push_back(Box::new(answer));
    }

    pub(crate) fn take(&self, slow: Duration) {
        self.0.lock().unwrap().slow = slow;
    }

    /// The transactions of each delivery, in order.
    pub(crate) fn deliveries(&self) -> Vec<Vec<u64>> {
        self.0.lock().unwrap().deliveries.clone()
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
}

#[async_trait]
impl Sink for Destination {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let (answer, slow) = {
            let mut script = self.0.lock().unwrap();
            let transactions = batch.iter().map(|event| event.position().txid.0).collect();
            script.deliveries.push(transactions);
            (script.answers.pop_front(), script.slow)
        };
        tokio::time::sleep(slow).await;
        answer.map_or(Ok(Delivery::All), |answer| answer(batch))
    }
}

/// A worker with one sink, running in the background.
pub(crate) struct Worker {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

pub(crate) fn settings() -> SinkSettings {
    SinkSettings {
        name: "test".to_owned(),
        filter: Filter::default(),
        start: Start::Beginning,
        batch: BatchOverrides {
            max_events: Some(3),
            ..BatchOverrides::default()
        },
        retry: RetrySettings::default(),
        delivery_timeout: Duration::from_secs(60),
    }
}

impl Worker {
    pub(crate) fn start(store: &Arc<MemoryStore>, to: &Destination, holder: &str) -> Self {
        Self::start_with(store, to, holder, settings())
    }

    #[expect(clippy::disallowed_methods, reason = "the test plays the supervisor")]
    pub(crate) fn start_with(
        store: &Arc<MemoryStore>,
        to: &Destination,
        holder: &str,
        sink: SinkSettings,
    ) -> Self {
        let worker = WorkerSettings {
            holder: holder.to_owned(),
            lease_ttl: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(10),
            poll_max_interval: Duration::from_millis(250),
            cursor_idle_save: Duration::from_secs(30),
        };
        let stop = CancellationToken::new();
        let sinks = vec![(sink, Box::new(to.clone()) as Box<dyn Connector>)];
        let running = worker::run(Arc::clone(store), worker, sinks, stop.clone());
        Self {
            stop,
            task: tokio::spawn(running),
        }
    }

    pub(crate) async fn stopped(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// Lets (paused) time pass until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..200_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came true: {what}");
}
