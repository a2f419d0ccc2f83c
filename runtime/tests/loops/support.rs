//! A store in memory that fails on demand, and sinks that do what a test scripts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox::{
    Cursor, DeadLetter, Event, Filter, Lease, Mark, Member, Origin, Owned, Position, Pruned,
    Replay, ReplayOutcome, Settlement, Then, Txid, sink_lease,
};
use outbox_runtime::settings::{
    BatchOverrides, PoisonSettings, RetentionSettings, RetrySettings, Roles, SinkSettings, Start,
    WorkerSettings,
};
use outbox_runtime::store::{Head, Page, PageEnd, Range, Reader, Store, StoreError};
use outbox_runtime::worker;
use outbox_sinks::{
    Batch, Connector, Delivery, Refusal, Session, Sink, SinkError, Verdict, async_trait,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) const FIVE: [&str; 5] = ["a.one", "a.two", "b.three", "a.four", "a.five"];

pub(crate) fn cursor_at(store: &MemoryStore, txid: u64) -> bool {
    store.look(|state| state.cursor.position == Position::new(txid, 1))
}

/// The outbox of a test: every event of transaction `n` has position `(n, 1)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryStore(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) events: BTreeMap<Position, Event>,
    pub(crate) leases: BTreeMap<String, (Lease, Option<Instant>)>,
    pub(crate) members: BTreeMap<String, Vec<String>>,
    /// The cursor, as the next holder finds it.
    pub(crate) cursor: Cursor,
    pub(crate) cursor_token: i64,
    pub(crate) retry_at: Option<Instant>,
    pub(crate) last_error: Option<String>,
    pub(crate) saves: Vec<Position>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) dead_letters: Vec<DeadLetter>,
    /// How many of them there were at the last resume.
    pub(crate) resumed_with: usize,
    /// The dead letters that wait to be replayed, and what came of those that did.
    pub(crate) replaying: Vec<Replay>,
    pub(crate) ordered: Vec<Replay>,
    pub(crate) replayed: Vec<(i64, ReplayOutcome)>,
    pub(crate) seek: Option<Position>,
    /// How long a claim takes.
    pub(crate) slow_claim: Duration,
    pub(crate) operation: i64,
    pub(crate) reads: usize,
    pub(crate) renewals_fail: bool,
    pub(crate) down: bool,
    pub(crate) history: u64,
    /// The most rows of one read; zero is no limit.
    pub(crate) max_scan: usize,
}

impl State {
    fn suspects_are_told(&mut self) {
        let at = self.cursor.position;
        let ahead = |position: Position| position > at;
        self.cursor.suspect.take_if(|it| !ahead(it.position));
        self.cursor.in_hand.take_if(|end| !ahead(*end));
        self.cursor.hunt.take_if(|end| !ahead(*end));
    }

    /// Obeys like an operator's command.
    pub(crate) fn order(&mut self, order: impl FnOnce(&mut Self)) {
        order(self);
        self.operation += 1;
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.cursor.attempts
    }
}

impl MemoryStore {
    pub(crate) fn with_events(types: &[&str]) -> Arc<Self> {
        let store = Self::default();
        types
            .iter()
            .for_each(|event_type| store.publish(event_type));
        Arc::new(store)
    }

    /// Events of these subjects, in this order.
    pub(crate) fn with_subject(subjects: &[&str]) -> Arc<Self> {
        let store = Self::default();
        for (n, subject) in (1..).zip(subjects) {
            let position = Position::new(n, 1);
            let payload = format!(r#"{{"id":"evt_{n}","type":"a.b","subject":"{subject}"}}"#);
            let event = Event::new(position, "a.b", payload);
            store.look(|state| state.events.insert(position, event));
        }
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
        let (operation, history) = (state.operation, state.history);
        Ok(Head {
            horizon,
            newest,
            operation,
            history,
        })
    }

    async fn reader(&self, filter: &Filter) -> Result<MemoryReader, StoreError> {
        Ok(MemoryReader(self.clone(), filter.clone()))
    }

    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, StoreError> {
        let mut state = self.up()?;
        let until = Instant::now() + ttl;
        let (token, abandoned) = match state.leases.get(name) {
            Some((held, Some(_))) if held.holder == holder => (held.token + 1, false),
            Some((_, Some(expires))) if *expires > Instant::now() => return Ok(None),
            Some((held, expires)) => (held.token + 1, expires.is_some()),
            None => (1, false),
        };
        let lease = Lease {
            name: name.to_owned(),
            holder: holder.to_owned(),
            token,
            abandoned,
        };
        let row = (lease.clone(), Some(until));
        state.leases.insert(name.to_owned(), row);
        Ok(Some(lease))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Owned, StoreError> {
        let mut state = self.up()?;
        if state.renewals_fail {
            return Err(StoreError::new("no answer"));
        }
        match state.leases.get_mut(&lease.name) {
            Some((held, Some(expires))) if held.token == lease.token => {
                *expires = Instant::now() + ttl;
                Ok(Owned::Yes)
            }
            _ => Ok(Owned::No),
        }
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        if let Some((held, expires)) = self.up()?.leases.get_mut(&lease.name)
            && held.token == lease.token
        {
            *expires = None;
        }
        Ok(())
    }

    async fn claim(
        &self,
        _sink: &str,
        lease: &Lease,
        _start: Start,
    ) -> Result<Option<Cursor>, StoreError> {
        let slow = self.look(|state| state.slow_claim);
        tokio::time::sleep(slow).await;
        let mut state = self.up()?;
        if state.cursor_token > lease.token {
            return Ok(None);
        }
        state.cursor_token = lease.token;
        if let Some(position) = state.seek.take() {
            state.cursor = Cursor {
                position,
                paused: state.cursor.paused.clone(),
                origin: Origin::Here,
                ..Cursor::default()
            };
            state.retry_at = None;
        }
        let retry_in = state.retry_at.map(|at| at - Instant::now());
        let found = Cursor {
            retry_in,
            replays: !state.replaying.is_empty(),
            ..state.cursor.clone()
        };
        state.cursor.delivering = false;
        Ok(Some(found))
    }

    async fn settle(
        &self,
        _sink: &str,
        lease: &Lease,
        settlement: &Settlement,
    ) -> Result<Owned, StoreError> {
        let mut state = self.up()?;
        if state.cursor_token != lease.token {
            return Ok(Owned::No);
        }
        if let Some(position) = settlement.up_to {
            assert!(
                position >= state.cursor.position,
                "OB-2: the cursor moved back"
            );
            state.cursor.position = position;
            state.saves.push(position);
        }
        state
            .dead_letters
            .extend(settlement.dead_letters.iter().cloned());
        state.cursor.delivering = false;
        match &settlement.then {
            Then::Go => {
                state.cursor.attempts = 0;
                (state.retry_at, state.last_error) = (None, None);
            }
            Then::BackOff(failure) => {
                state.cursor.attempts = failure.attempts;
                state.cursor.suspect.clone_from(&failure.suspect);
                state.retry_at = Some(Instant::now() + failure.retry_in);
                state.last_error = Some(failure.error.clone());
            }
            Then::Pause(reason) => state.cursor.paused = Some(reason.clone()),
        }
        state.suspects_are_told();
        Ok(Owned::Yes)
    }

    async fn mark(&self, _sink: &str, lease: &Lease, mark: &Mark) -> Result<Owned, StoreError> {
        let mut state = self.up()?;
        if state.cursor_token != lease.token {
            return Ok(Owned::No);
        }
        state.cursor.in_hand = Some(mark.end);
        state.cursor.delivering = true;
        state.cursor.hunt = mark.hunt;
        state.cursor.suspect.clone_from(&mark.suspect);
        state.marks.push(mark.clone());
        Ok(Owned::Yes)
    }

    async fn recent_dead_letters(
        &self,
        _sink: &str,
        _window: Duration,
        except: &[Position],
    ) -> Result<u32, StoreError> {
        let state = self.up()?;
        let counts = |dead: &&DeadLetter| !except.contains(&dead.event.position());
        let recent = state.dead_letters.iter().skip(state.resumed_with);
        Ok(u32::try_from(recent.filter(counts).count()).unwrap())
    }

    async fn replays(&self, _sink: &str, limit: u32) -> Result<Vec<Replay>, StoreError> {
        let limit = usize::try_from(limit).unwrap();
        Ok(self.up()?.replaying.iter().take(limit).cloned().collect())
    }

    async fn settle_replays(
        &self,
        _sink: &str,
        lease: &Lease,
        outcomes: &[(i64, ReplayOutcome)],
    ) -> Result<Owned, StoreError> {
        let mut state = self.up()?;
        if state.cursor_token != lease.token {
            return Ok(Owned::No);
        }
        for (id, outcome) in outcomes {
            state.replayed.retain(|(told, _)| told != id);
            if *outcome != ReplayOutcome::Postponed {
                state.replayed.push((*id, outcome.clone()));
            }
        }
        let told: Vec<_> = state.replayed.iter().map(|(id, _)| *id).collect();
        let ordered = state.ordered.clone();
        let waiting = ordered
            .into_iter()
            .filter(|replay| !told.contains(&replay.id));
        state.replaying = waiting.collect();
        Ok(Owned::Yes)
    }

    async fn census(
        &self,
        holder: &str,
        sinks: &[String],
        _ttl: Duration,
    ) -> Result<Vec<Member>, StoreError> {
        let mut state = self.up()?;
        state.members.insert(holder.to_owned(), sinks.to_vec());
        let held = |holder: &str, sinks: &[String]| {
            let holds = |sink: &&String| {
                let lease = state.leases.get(&sink_lease(sink));
                lease.is_some_and(|(lease, until)| lease.holder == holder && until.is_some())
            };
            sinks.iter().filter(holds).cloned().collect()
        };
        let members = state.members.iter().map(|(holder, sinks)| Member {
            holder: holder.clone(),
            sinks: sinks.clone(),
            held: held(holder, sinks),
        });
        Ok(members.collect())
    }

    async fn leave(&self, holder: &str) -> Result<(), StoreError> {
        self.up()?.members.remove(holder);
        Ok(())
    }

    async fn prune(&self, _min_age: Duration, after: Position) -> Result<Pruned, StoreError> {
        let mut state = self.up()?;
        let (cursor, before) = (state.cursor.position, state.events.len());
        state
            .events
            .retain(|position, _| *position <= after || *position > cursor);
        Ok(Pruned {
            rows: u64::try_from(before - state.events.len()).unwrap(),
            next: None,
        })
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
type Rule = Arc<dyn Fn(&Batch) -> Result<Delivery, SinkError> + Send + Sync>;

/// A destination that answers as scripted, and takes everything once the script is over.
#[derive(Clone, Default)]
pub(crate) struct Destination(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    rule: Option<Rule>,
    frozen: bool,
    deliveries: Vec<Vec<u64>>,
    apart: Vec<Vec<u64>>,
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
        let (answer, rule, slow) = {
            let mut script = self.0.lock().unwrap();
            let transactions: Vec<_> = batch.iter().map(|event| event.position().txid.0).collect();
            if batch.is_apart() {
                script.apart.push(transactions.clone());
            }
            script.deliveries.push(transactions);
            (script.answers.pop_front(), script.rule.clone(), script.slow)
        };
        tokio::time::sleep(slow).await;
        match (answer, rule) {
            (Some(answer), _) => answer(batch),
            (None, Some(rule)) => rule(batch),
            (None, None) => Ok(Delivery::All),
        }
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
        poison: PoisonSettings::default(),
    }
}

impl Worker {
    pub(crate) fn start(store: &Arc<MemoryStore>, to: &Destination, holder: &str) -> Self {
        Self::start_with(store, to, holder, settings())
    }

    pub(crate) fn start_with(
        store: &Arc<MemoryStore>,
        to: &Destination,
        holder: &str,
        sink: SinkSettings,
    ) -> Self {
        Self::start_all(store, to, holder, vec![sink])
    }

    /// With a sink for each of these names.
    pub(crate) fn start_many(
        store: &Arc<MemoryStore>,
        to: &Destination,
        holder: &str,
        names: &[&str],
    ) -> Self {
        let sink = |name: &&str| SinkSettings {
            name: (*name).to_owned(),
            ..settings()
        };
        Self::start_all(store, to, holder, names.iter().map(sink).collect())
    }

    #[expect(clippy::disallowed_methods, reason = "the test plays the supervisor")]
    fn start_all(
        store: &Arc<MemoryStore>,
        to: &Destination,
        holder: &str,
        sinks: Vec<SinkSettings>,
    ) -> Self {
        let worker = WorkerSettings {
            holder: holder.to_owned(),
            lease_ttl: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(10),
            poll_max_interval: Duration::from_millis(250),
            cursor_idle_save: Duration::from_secs(30),
            roles: Roles {
                sinks: true,
                retention: false,
            },
            retention: RetentionSettings::default(),
        };
        let stop = CancellationToken::new();
        let connector = || Box::new(to.clone()) as Box<dyn Connector>;
        let sinks = sinks.into_iter().map(|sink| (sink, connector())).collect();
        let running = worker::run(Arc::clone(store), worker, sinks, stop.clone());
        Self {
            stop,
            task: tokio::spawn(running),
        }
    }

    /// The process dies: nothing is saved and nothing released.
    pub(crate) async fn killed(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
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
