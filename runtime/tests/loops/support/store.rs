//! The tables of a test, in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox::{
    Advance, Cursor, DeadLetter, Event, Filter, Flow, Lease, Mark, Member, Origin, Owned, Position,
    Pruned, Replay, ReplayOutcome, Settlement, Then, Txid, sink_lease,
};
use outbox_runtime::settings::Start;
use outbox_runtime::store::{Head, Range, Store, StoreError, Tail, TailRange};
use tokio::time::Instant;

use super::reader::MemoryReader;

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
    /// How many cursors and how many leases each statement for several was about.
    pub(crate) joint_saves: Vec<usize>,
    pub(crate) joint_renewals: Vec<usize>,
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
    /// What loops have read for themselves, and what was read for all.
    pub(crate) reads: usize,
    pub(crate) tails: usize,
    pub(crate) tails_fail: bool,
    pub(crate) renewals_fail: bool,
    pub(crate) renewals_hang: bool,
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

impl State {
    fn head(&self) -> Head {
        let newest = self.events.last_key_value().map(|(position, _)| *position);
        Head {
            horizon: Txid(newest.map_or(1, |newest| newest.txid.0 + 1)),
            newest,
            operation: self.operation,
            history: self.history,
        }
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

    pub(super) fn up(&self) -> Result<std::sync::MutexGuard<'_, State>, StoreError> {
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
        Ok(self.up()?.head())
    }

    async fn tail(&self, reader: &mut MemoryReader, range: TailRange) -> Result<Tail, StoreError> {
        let mut state = self.up()?;
        state.tails += 1;
        if state.tails_fail {
            return Err(StoreError::new("too large"));
        }
        let head = state.head();
        let range = Range {
            after: range.after,
            horizon: head.horizon,
            max_events: range.max_events,
            max_bytes: range.max_bytes,
        };
        let page = state.page(reader.filter(), range);
        Ok(Tail { head, page })
    }

    async fn reader(&self, filter: &Filter) -> Result<MemoryReader, StoreError> {
        Ok(MemoryReader::new(self, filter))
    }

    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, StoreError> {
        Ok(self.up()?.acquire(name, holder, ttl))
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Owned, StoreError> {
        let mut state = self.up()?;
        if state.renewals_fail {
            return Err(StoreError::new("no answer"));
        }
        Ok(state.renew(lease, ttl))
    }

    async fn renew_all(&self, leases: &[Lease], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        let hangs = self.look(|state| {
            state.joint_renewals.push(leases.len());
            state.renewals_hang
        });
        if hangs {
            return std::future::pending().await;
        }
        let mut renewed = Vec::new();
        for lease in leases {
            renewed.push(self.renew(lease, ttl).await? == Owned::Yes);
        }
        Ok(renewed)
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.up()?.release(lease);
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
                flow: Flow::new("here", state.cursor.flow.generation() + 1),
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
        state.cursor.delivered = state.cursor.delivered.max(settlement.delivered);
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

    async fn advance(&self, moves: &[Advance]) -> Result<Vec<bool>, StoreError> {
        let mut state = self.up()?;
        state.joint_saves.push(moves.len());
        let mut moved = Vec::new();
        for it in moves {
            let at = state.cursor.position;
            let plain = state.cursor.attempts == 0 && state.cursor.suspect.is_none();
            let plain = plain && state.cursor.in_hand.is_none() && state.cursor.hunt.is_none();
            let moves = state.cursor_token == it.token && plain && at < it.up_to;
            if moves {
                state.cursor.position = it.up_to;
                state.saves.push(it.up_to);
            }
            moved.push(moves);
        }
        Ok(moved)
    }

    async fn mark(&self, _sink: &str, lease: &Lease, mark: &Mark) -> Result<Owned, StoreError> {
        let mut state = self.up()?;
        if state.cursor_token != lease.token {
            return Ok(Owned::No);
        }
        state.cursor.in_hand = Some(mark.end);
        state.cursor.marked = state.cursor.marked.max(Some(mark.end));
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
