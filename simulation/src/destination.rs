//! The destinations as they truly are: when they are out, and which events they will
//! not take. The loop never sees this; the model does.

use crate::chance::stream;
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::world::World;

/// A destination's state.
#[derive(Debug, Default)]
pub(crate) struct Destination {
    pub(crate) outage: Option<Outage>,
    /// The greatest token under which it was opened.
    pub(crate) newest_token: i64,
    /// Events whose defect was repaired.
    pub(crate) healed: Vec<usize>,
    /// What is there, if it stores its position with the data.
    pub(crate) ledger: Ledger,
}

/// A time in which a destination takes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    pub(crate) kind: OutageKind,
    pub(crate) until: u64,
}

/// What an outage looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutageKind {
    Unavailable,
    Failed,
    /// Every event is refused, one like the other.
    Refused,
    Misconfigured,
    Hang,
    /// Another one of these at each call.
    Mixed,
}

impl OutageKind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Unavailable,
        Self::Failed,
        Self::Refused,
        Self::Misconfigured,
        Self::Hang,
        Self::Mixed,
    ];

    /// Whether the loop may hold it against an event that is tried alone.
    pub(crate) const fn blames(self) -> bool {
        match self {
            Self::Failed | Self::Refused | Self::Hang | Self::Mixed => true,
            Self::Unavailable | Self::Misconfigured => false,
        }
    }
}

/// What an event is to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    Innocent,
    /// It can never be sent, and the sink knows.
    Undeliverable,
    /// It is not taken, and this is what it looks like.
    Poison(Poison),
}

/// What happens to those who send a poison event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poison {
    /// The event is refused, or the whole batch fails if the sink can't tell.
    Refused,
    /// The sink panics.
    Panics,
    /// There is no answer.
    Hangs,
    /// The process dies.
    Kills,
}

impl World {
    /// What an event is to a destination at this moment.
    pub(crate) fn nature(&self, sink: usize, number: usize) -> Nature {
        let drawn = draw(&self.plan, sink, number);
        if self.outbox.event(number).is_none_or(|event| event.harmless) {
            return Nature::Innocent;
        }
        let healed = self.destinations.get(sink).map(|it| &it.healed);
        if healed.is_some_and(|healed| healed.contains(&number)) {
            return Nature::Innocent;
        }
        match drawn {
            (Nature::Poison(_), Some(heals_at)) if self.now() >= heals_at => Nature::Innocent,
            (nature, _) => nature,
        }
    }

    /// The outage that a destination has now.
    pub(crate) fn outage(&self, sink: usize) -> Option<OutageKind> {
        let outage = self.destinations.get(sink)?.outage?;
        (self.now() < outage.until).then_some(outage.kind)
    }
}

/// An event's nature, and when it heals.
fn draw(plan: &Plan, sink: usize, number: usize) -> (Nature, Option<u64>) {
    let number = (u64::try_from(number).unwrap_or(0) << 8) | u64::try_from(sink).unwrap_or(0);
    let mut rng = stream(plan.seed, "nature", number);
    let rates = &plan.rates;
    let (undeliverable, poison) = (rng.f64(), rng.f64());
    let (killer, panics, heals) = (rng.f64(), rng.f64(), rng.f64());
    let heals_at = rng.u64(..plan.active_ms);
    let panics_or_hangs = if rng.bool() {
        Poison::Panics
    } else {
        Poison::Hangs
    };
    if undeliverable < rates.undeliverable {
        return (Nature::Undeliverable, None);
    }
    let kind = if killer < rates.killer {
        Poison::Kills
    } else if poison >= rates.poison {
        return (Nature::Innocent, None);
    } else if panics < rates.panic_or_hang {
        panics_or_hangs
    } else {
        Poison::Refused
    };
    let heals_at = (heals < rates.healing).then_some(heals_at);
    (Nature::Poison(kind), heals_at)
}
