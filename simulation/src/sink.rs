//! The sinks that the real loop delivers to: each call takes its time, and its answer
//! may say less than what was done, or come too late, or never.

mod underway;

use std::borrow::Cow;
use std::time::Duration;

use outbox::{Event, sink_lease};
use outbox_sinks::{
    Batch, Connector, Delivery, Progress, Session, Sink, SinkError, Upcoming, async_trait,
};
use tokio::time::{Instant, sleep_until, timeout_at};
use underway::{Answer, Underway};

use crate::arrival::{Arrival, Ending};
use crate::calls::wait;
use crate::chance::Chance;
use crate::destination::OutageKind;
use crate::fortune::Fortune;
use crate::world::{Shared, World, millis};

/// How a simulated sink that panics says so: the panic is the sink's own.
pub(crate) const OWN_PANIC: &str = "a simulated sink panics";

/// A destination, as one process reaches it.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedConnector {
    pub(crate) shared: Shared,
    pub(crate) process: usize,
    pub(crate) sink: usize,
}

/// What comes of an opening.
#[derive(Debug)]
enum Opening {
    Opened,
    Fails(SinkError),
    Panics,
    Hangs,
}

#[async_trait]
impl Connector for SimulatedConnector {
    async fn probe(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        let before = self.begin_opening();
        wait(before).await;
        match self.open_now(session.token) {
            Opening::Opened => Ok(Box::new(SimulatedSink {
                to: self.clone(),
                session: session.clone(),
                restores: self.shared.world().restores(self.sink),
                deadline: millis(session.delivery_timeout),
                begun: None,
            })),
            Opening::Fails(error) => Err(error),
            Opening::Panics => panic!("{OWN_PANIC}"),
            Opening::Hangs => std::future::pending().await,
        }
    }

    fn frozen_ranges(&self) -> bool {
        self.shared.world().is_frozen(self.sink)
    }

    fn stores_position(&self) -> bool {
        self.shared.world().stores_position(self.sink)
    }

    fn key<'e>(&self, event: &'e Event) -> Cow<'e, str> {
        let world = self.shared.world();
        match world.plan.sinks.get(self.sink) {
            Some(plan) if plan.one_key => Cow::Borrowed(""),
            _ => Cow::Borrowed(event.subject()),
        }
    }
}

impl SimulatedConnector {
    fn begin_opening(&self) -> u64 {
        let mut world = self.shared.world();
        let process = world.processes.get_mut(self.process);
        process.map_or(1, |process| process.chance.millis(0, 5))
    }

    fn open_now(&self, token: i64) -> Opening {
        let mut world = self.shared.world();
        if !world.survives(self.process) {
            return Opening::Hangs;
        }
        let opening = self.draw_opening(&mut world);
        let fences = world.fences(self.sink);
        if let Some(destination) = world.destinations.get_mut(self.sink) {
            if fences && token < destination.newest_token {
                return Opening::Fails(SinkError::fenced("open"));
            }
            destination.newest_token = destination.newest_token.max(token);
        }
        world.log(|| format!("opens sink {}: {opening:?}", self.sink));
        opening
    }

    /// Draws what comes of an opening, or of a question that follows it.
    fn draw_opening(&self, world: &mut World) -> Opening {
        let outage = world.outage(self.sink);
        let (rate, calm) = (world.plan.rates.open_failure, world.calm);
        let Some(process) = world.processes.get_mut(self.process) else {
            return Opening::Hangs;
        };
        let chance = &mut process.chance;
        let fails = !calm && chance.happens(rate);
        let kind = match outage {
            // A destination that is out may still let itself be opened.
            Some(kind) if chance.happens(0.3) => Some(kind),
            _ if fails => chance.choice(OutageKind::ALL),
            _ => None,
        };
        let panics = fails && chance.happens(0.1);
        match kind {
            _ if panics => Opening::Panics,
            None => Opening::Opened,
            Some(OutageKind::Misconfigured) => {
                Opening::Fails(SinkError::misconfigured("open", "do something"))
            }
            Some(OutageKind::Hang) => Opening::Hangs,
            Some(OutageKind::Unavailable) => Opening::Fails(SinkError::unavailable("open")),
            Some(OutageKind::Failed | OutageKind::Refused | OutageKind::Mixed) => {
                Opening::Fails(SinkError::failed("open"))
            }
        }
    }
}

/// An open sink.
#[derive(Debug)]
struct SimulatedSink {
    to: SimulatedConnector,
    session: Session,
    /// How often the destination was restored when it was opened.
    restores: u64,
    deadline: u64,
    /// The batch that was begun ahead of its turn.
    begun: Option<(Arrival, Fortune)>,
}

#[async_trait]
impl Sink for SimulatedSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        self.deliver_ahead(batch, &mut Upcoming::none()).await
    }

    async fn deliver_ahead(
        &mut self,
        batch: &Batch,
        next: &mut Upcoming<'_>,
    ) -> Result<Delivery, SinkError> {
        let begun = self.begun.take();
        let Some(fortune) = self.begin(batch) else {
            return std::future::pending().await;
        };
        let restores = self.restores;
        // Whatever it finds cut it connects anew, for the next time.
        self.restores = self.to.shared.world().restores(self.to.sink);
        let (arrival, fortune) = match begun.filter(|(it, _)| is_same(it.batch(), batch)) {
            // What is on its way already has a fate of its own.
            Some((arrival, fate)) => (arrival, Fortune { before: 0, ..fate }),
            None => {
                let to = (self.to.sink, &self.session, restores);
                (Arrival::new(to, batch, &fortune), fortune)
            }
        };
        let seed = self.seed();
        let mut begun = None;
        let mut underway = Underway {
            of: self,
            seed,
            arrival: Some(arrival),
            began_at: self.clock(),
        };
        wait(fortune.before).await;
        underway.arrive(fortune.first_part).await;
        wait(fortune.between).await;
        underway.arrive(usize::MAX).await;
        if underway.has_all() && self.begins_ahead() {
            let after = Instant::now() + Duration::from_millis(fortune.after);
            if let Ok(next) = timeout_at(after, next.batch()).await {
                begun = self.begin_ahead(&next);
            }
            sleep_until(after).await;
        } else {
            wait(fortune.after).await;
        }
        match underway.answer(&fortune) {
            Answer::Returns(Ok(delivery)) => {
                drop(underway);
                self.begun = begun.filter(|_| delivery == Delivery::All);
                Ok(delivery)
            }
            Answer::Returns(Err(error)) => Err(error),
            Answer::Panics => panic!("{OWN_PANIC}"),
            Answer::Never => std::future::pending().await,
        }
    }

    async fn progress(&mut self) -> Result<Option<Progress>, SinkError> {
        let before = self.to.begin_opening();
        wait(before).await;
        match self.progress_now() {
            (Opening::Opened, progress) => Ok(progress),
            (Opening::Fails(error), _) => Err(error),
            (Opening::Panics, _) => panic!("{OWN_PANIC}"),
            (Opening::Hangs, _) => std::future::pending().await,
        }
    }
}

impl SimulatedSink {
    /// What the destination has stored, in front of the model's eyes.
    fn progress_now(&self) -> (Opening, Option<Progress>) {
        let mut world = self.to.shared.world();
        if !world.survives(self.to.process) {
            return (Opening::Hangs, None);
        }
        let sink = self.to.sink;
        let opening = self.to.draw_opening(&mut world);
        world.log(|| format!("asks sink {sink} for its progress: {opening:?}"));
        if world.restores(sink) != self.restores {
            return (Opening::Fails(SinkError::unavailable("connection")), None);
        }
        let Opening::Opened = opening else {
            return (opening, None);
        };
        let progress = world.ledger(sink).and_then(|it| it.progress.clone());
        world.log(|| format!("  is told: {progress:?}"));
        world.was_asked(sink, &self.session, progress.as_ref());
        (opening, progress)
    }

    fn seed(&self) -> u64 {
        let mut world = self.to.shared.world();
        let process = world.processes.get_mut(self.to.process);
        process.map_or(0, |process| process.chance.u64(..))
    }

    fn clock(&self) -> u64 {
        let world = self.to.shared.world();
        world
            .processes
            .get(self.to.process)
            .map_or(0, |it| it.clock())
    }

    fn begins_ahead(&self) -> bool {
        let world = self.to.shared.world();
        let plan = world.plan.sinks.get(self.to.sink);
        plan.is_some_and(|plan| plan.begins_ahead)
    }

    /// Lets the first events of the next batch arrive: everything before them has.
    fn begin_ahead(&self, next: &Batch) -> Option<(Arrival, Fortune)> {
        let fortune = self.begin(next)?;
        let to = (self.to.sink, &self.session, self.restores);
        let mut arrival = Arrival::new(to, next, &fortune);
        let mut world = self.to.shared.world();
        world.count("batches begun ahead");
        arrival.happen(&mut world, fortune.first_part);
        if arrival.ending() == Some(Ending::Kills) {
            world.kill(self.to.process);
        }
        Some((arrival, fortune))
    }

    /// Begins a delivery, in front of the model's eyes; `None` if the process is dead.
    fn begin(&self, batch: &Batch) -> Option<Fortune> {
        let mut world = self.to.shared.world();
        if !world.survives(self.to.process) {
            return None;
        }
        let (sink, token) = (self.to.sink, self.session.token);
        let name = world.sink_name(sink).to_owned();
        world.log(|| {
            let ids: Vec<&str> = batch.iter().map(Event::id).collect();
            let apart = if batch.is_apart() { " apart" } else { "" };
            format!("delivers{apart} to {name} #{token}: {ids:?}")
        });
        world.count("deliveries");
        let ttl = millis(world.plan.worker.lease_ttl);
        let process = world.processes.get_mut(self.to.process)?;
        let lease = sink_lease(&name);
        let must_not = process.must_not_deliver(&lease, token, ttl);
        let paused = process.known(&lease, token).paused;
        if let Some(reason) = must_not {
            world.violated("OB-3", format!("{name} delivers although {reason}"));
        }
        if paused {
            world.violated(
                "commands",
                format!("{name} delivers although it was told to pause"),
            );
        }
        world.delivery_begins(sink, token, batch);
        world.may_be_sent(sink, token, self.restores);
        Some(Fortune::draw(&mut world, &self.to, batch, self.deadline))
    }
}

fn is_same(one: &Batch, other: &Batch) -> bool {
    let range = |batch: &Batch| (batch.first().position(), batch.end(), batch.len());
    !other.is_apart() && range(one) == range(other)
}
