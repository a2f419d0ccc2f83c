//! The store that the real loop runs over.

use std::time::Duration;

use outbox::{
    Advance, Cursor, Filter, Lease, Mark, Member, Owned, Position, Pruned, Replay, ReplayOutcome,
    Settlement,
};
use outbox_runtime::settings::Start;
use outbox_runtime::store::{
    Head, Page, PageEnd, Range, Reader, Store, StoreError, Tail, TailRange,
};

use crate::calls::Line;
use crate::chance::Chance;
use crate::world::World;

/// How often a row is left by a statement for several, since somebody has it locked.
const LOCKED: f64 = 0.05;

/// The database, as one process reaches it.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedStore(pub(crate) Line);

impl SimulatedStore {
    /// Lets the process remember what it was told about a lease.
    fn learn(&self, learn: impl FnOnce(&mut crate::world::Process)) {
        let mut world = self.0.shared.world();
        if let Some(process) = world.processes.get_mut(self.0.process) {
            learn(process);
        }
    }

    /// Its own clock, when it asks for something.
    fn clock(&self) -> u64 {
        let world = self.0.shared.world();
        world
            .processes
            .get(self.0.process)
            .map_or(0, |it| it.clock())
    }

    /// Which of so many rows nobody else has locked.
    fn free(&self, rows: usize) -> Vec<bool> {
        let mut world = self.0.shared.world();
        let calm = world.calm;
        let Some(process) = world.processes.get_mut(self.0.process) else {
            return vec![false; rows];
        };
        let free = |_| calm || !process.chance.happens(LOCKED);
        (0..rows).map(free).collect()
    }

    fn sink(&self, name: &str) -> usize {
        let world = self.0.shared.world();
        let sinks = &world.plan.sinks;
        let place = sinks.iter().position(|plan| plan.settings.name == name);
        place.expect("a loop has the name of a sink of the plan")
    }

    /// A write under a lease: the process remembers if it is told that it has lost it.
    async fn write<F>(
        &self,
        name: &'static str,
        lease: &Lease,
        effect: F,
    ) -> Result<Owned, StoreError>
    where
        F: FnOnce(&mut World, bool) -> Owned + Send + 'static,
    {
        let owned = self.0.call(name, effect).await?;
        if owned == Owned::No {
            self.learn(|process| process.lost(lease));
        }
        Ok(owned)
    }
}

impl Store for SimulatedStore {
    type Reader = SimulatedReader;

    fn history(&self) -> u64 {
        let world = self.0.shared.world();
        world
            .processes
            .get(self.0.process)
            .map_or(0, |it| it.history)
    }

    async fn head(&self) -> Result<Head, StoreError> {
        let history = self.history();
        let look = move |world: &mut World, _late| head(world, history);
        self.0.call("head", look).await
    }

    async fn tail(
        &self,
        reader: &mut SimulatedReader,
        range: TailRange,
    ) -> Result<Tail, StoreError> {
        let (filter, history, process) = (reader.1.clone(), self.history(), self.0.process);
        let look = move |world: &mut World, _late| {
            let head = head(world, history);
            let range = Range {
                after: range.after,
                horizon: head.horizon,
                max_events: range.max_events,
                max_bytes: range.max_bytes,
            };
            let rows = some_rows(world, process, range);
            let page = page(world, &filter, range, rows);
            Tail { head, page }
        };
        self.0.call("tail", look).await
    }

    async fn reader(&self, filter: &Filter) -> Result<SimulatedReader, StoreError> {
        let filter = filter.clone();
        self.0.call("reader", |_, _| ()).await?;
        Ok(SimulatedReader(self.clone(), filter))
    }

    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, StoreError> {
        let asked_at = self.clock();
        let (name, holder) = (name.to_owned(), holder.to_owned());
        let acquire = move |world: &mut World, _late| world.acquire(&name, &holder, ttl);
        let lease = self.0.call("acquire", acquire).await?;
        if let Some(lease) = &lease {
            self.learn(|process| process.knows(lease).asked_at = asked_at);
        }
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Owned, StoreError> {
        let (asked_at, renewed) = (self.clock(), lease.clone());
        let renew = move |world: &mut World, _late| world.renew(&renewed, ttl);
        let owned = self.write("renew", lease, renew).await?;
        if owned == Owned::Yes {
            self.learn(|process| process.knows(lease).asked_at = asked_at);
        }
        Ok(owned)
    }

    async fn renew_all(&self, leases: &[Lease], ttl: Duration) -> Result<Vec<bool>, StoreError> {
        let (asked_at, ours, free) = (self.clock(), leases.to_vec(), self.free(leases.len()));
        let renew = move |world: &mut World, _late| {
            world.count("leases renewed together");
            let renewed = ours.iter().zip(free);
            let renewed =
                renewed.map(|(lease, free)| free && world.renew(lease, ttl) == Owned::Yes);
            renewed.collect::<Vec<_>>()
        };
        let renewed = self.0.call("renew all", renew).await?;
        for (lease, _) in leases.iter().zip(&renewed).filter(|(_, renewed)| **renewed) {
            self.learn(|process| process.knows(lease).asked_at = asked_at);
        }
        Ok(renewed)
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.learn(|process| process.lost(lease));
        let lease = lease.clone();
        let release = move |world: &mut World, _late| {
            world.log(|| format!("releases {} #{}", lease.name, lease.token));
            world.release(&lease);
        };
        self.0.call("release", release).await
    }

    async fn claim(
        &self,
        sink: &str,
        lease: &Lease,
        start: Start,
    ) -> Result<Option<Cursor>, StoreError> {
        let (sink, claimed) = (self.sink(sink), lease.clone());
        let claim = move |world: &mut World, _late| {
            let cursor = world.claim(sink, &claimed, start);
            let name = world.sink_name(sink).to_owned();
            world.log(|| {
                format!(
                    "claims {name} #{}: {}",
                    claimed.token,
                    told(cursor.as_ref())
                )
            });
            cursor
        };
        let cursor = self.0.call("claim", claim).await?;
        self.learn(|process| match &cursor {
            Some(cursor) => process.knows(lease).paused = cursor.paused.is_some(),
            None => process.lost(lease),
        });
        Ok(cursor)
    }

    async fn settle(
        &self,
        sink: &str,
        lease: &Lease,
        settlement: &Settlement,
    ) -> Result<Owned, StoreError> {
        let (sink, by, settlement) = (self.sink(sink), lease.clone(), settlement.clone());
        let settle = move |world: &mut World, late| {
            let owned = world.settle(sink, &by, &settlement, late);
            let name = world.sink_name(sink).to_owned();
            world.log(|| {
                let letters = settlement.dead_letters.iter();
                let dead: Vec<_> = letters
                    .map(|it| (it.event.id().to_owned(), it.attempts))
                    .collect();
                let up_to = settlement.up_to.map(|to| to.to_string());
                let then = &settlement.then;
                format!(
                    "settles {name} #{} up to {up_to:?}, dead {dead:?}, {then:?}: {owned:?}",
                    by.token
                )
            });
            owned
        };
        self.write("settle", lease, settle).await
    }

    async fn advance(&self, moves: &[Advance]) -> Result<Vec<bool>, StoreError> {
        let free = self.free(moves.len());
        let moves = moves.iter().zip(free);
        let moves = moves.map(|(it, free)| (self.sink(&it.sink), it.token, it.up_to, free));
        let moves: Vec<_> = moves.collect();
        let advance = move |world: &mut World, _late| {
            let mut moved = Vec::new();
            for (sink, token, up_to, free) in moves {
                let moves = free && world.advance(sink, token, up_to);
                let name = world.sink_name(sink).to_owned();
                world.log(|| format!("moves {name} #{token} to {up_to}: {moves}"));
                moved.push(moves);
            }
            moved
        };
        self.0.call("advance", advance).await
    }

    async fn mark(&self, sink: &str, lease: &Lease, mark: &Mark) -> Result<Owned, StoreError> {
        let (sink, by, mark) = (self.sink(sink), lease.clone(), mark.clone());
        let marking = move |world: &mut World, _late| {
            let owned = world.mark(sink, &by, &mark);
            let name = world.sink_name(sink).to_owned();
            world.log(|| format!("marks {name} #{}: {mark:?}: {owned:?}", by.token));
            owned
        };
        self.write("mark", lease, marking).await
    }

    async fn recent_dead_letters(
        &self,
        sink: &str,
        window: Duration,
        except: &[Position],
    ) -> Result<u32, StoreError> {
        let (sink, except) = (self.sink(sink), except.to_vec());
        let count = move |world: &mut World, _late| world.recent_letters(sink, window, &except);
        self.0.call("recent", count).await
    }

    async fn replays(&self, sink: &str, limit: u32) -> Result<Vec<Replay>, StoreError> {
        let sink = self.sink(sink);
        let look = move |world: &mut World, _late| world.replays(sink, limit);
        self.0.call("replays", look).await
    }

    async fn settle_replays(
        &self,
        sink: &str,
        lease: &Lease,
        outcomes: &[(i64, ReplayOutcome)],
    ) -> Result<Owned, StoreError> {
        let (sink, by, outcomes) = (self.sink(sink), lease.clone(), outcomes.to_vec());
        let settle = move |world: &mut World, _late| {
            let owned = world.settle_replays(sink, &by, &outcomes);
            world.log(|| format!("settles replays {outcomes:?}: {owned:?}"));
            owned
        };
        self.write("settle replays", lease, settle).await
    }

    async fn census(
        &self,
        holder: &str,
        sinks: &[String],
        ttl: Duration,
    ) -> Result<Vec<Member>, StoreError> {
        let (holder, sinks) = (holder.to_owned(), sinks.to_vec());
        let census = move |world: &mut World, _late| world.census(&holder, &sinks, ttl);
        self.0.call("census", census).await
    }

    async fn leave(&self, holder: &str) -> Result<(), StoreError> {
        let holder = holder.to_owned();
        let leave = move |world: &mut World, _late| world.leave(&holder);
        self.0.call("leave", leave).await
    }

    async fn prune(&self, min_age: Duration, after: Position) -> Result<Pruned, StoreError> {
        let prune = move |world: &mut World, _late| world.prune(min_age, after);
        self.0.call("prune", prune).await
    }
}

fn told(cursor: Option<&Cursor>) -> String {
    let Some(cursor) = cursor else {
        return "it is somebody else's".to_owned();
    };
    format!(
        "at {}, attempts {}, suspect {:?}, in hand {:?}, delivering {}, hunt {:?}, paused {:?}",
        cursor.position,
        cursor.attempts,
        cursor.suspect,
        cursor.in_hand,
        cursor.delivering,
        cursor.hunt,
        cursor.paused
    )
}

/// Reads the outbox for one sink.
#[derive(Debug)]
pub(crate) struct SimulatedReader(SimulatedStore, Filter);

impl Reader for SimulatedReader {
    async fn read(&mut self, range: Range) -> Result<Page, StoreError> {
        let (filter, process) = (self.1.clone(), self.0.0.process);
        let read = move |world: &mut World, _late| {
            world.is_read(range.horizon);
            let rows = some_rows(world, process, range);
            page(world, &filter, range, rows)
        };
        self.0.0.call("read", read).await
    }
}

fn head(world: &World, history: u64) -> Head {
    Head {
        horizon: world.outbox.horizon(),
        newest: world.outbox.newest(),
        operation: world.operation,
        history,
    }
}

/// How many rows are looked at: a page may end anywhere.
fn some_rows(world: &mut World, process: usize, range: Range) -> usize {
    let process = world.processes.get_mut(process);
    process.map_or(1, |it| it.chance.usize(1..=2 * range.max_events.min(40)))
}

fn page(world: &World, filter: &Filter, range: Range, rows: usize) -> Page {
    let mut page = Page {
        events: Vec::new(),
        end: range.after,
        ended_by: PageEnd::Horizon,
    };
    let end = Position::before(range.horizon);
    let mut bytes = 0;
    for (looked_at, (position, number)) in world.outbox.between(range.after, end).enumerate() {
        if looked_at == rows || page.events.len() == range.max_events {
            page.ended_by = PageEnd::Rows;
            break;
        }
        let Some(published) = world.outbox.event(number) else {
            continue;
        };
        if filter.takes(&published.event) {
            bytes += published.event.payload().len();
            if bytes > range.max_bytes && !page.events.is_empty() {
                page.ended_by = PageEnd::Bytes;
                break;
            }
            page.events.push(published.event.clone());
        }
        page.end = position;
    }
    page
}
