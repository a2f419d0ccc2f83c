//! What a seed stands for: the size of the world, the settings of everybody in it and
//! what goes wrong how often. Some seeds are calm and some are hostile.

use std::time::Duration;

use fastrand::Rng;
use outbox::Filter;
use outbox_runtime::settings::{
    BatchOverrides, OnPoison, PoisonSettings, RetentionSettings, RetrySettings, Roles,
    SinkSettings, Start, WorkerSettings,
};

use crate::chance::{Chance, stream};
use crate::faults::{Fault, Faults};

/// Event types begin with one of these; a filter takes one of them.
pub(crate) const AREAS: [&str; 3] = ["order", "node", "bill"];

/// What is drawn from a seed once and never changes in its run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) faults: Faults,
    /// How many transactions publish.
    pub(crate) transactions: u64,
    /// How many events one of them writes at most.
    pub(crate) events_each: u64,
    pub(crate) keys: u64,
    /// For how long things go wrong, in milliseconds.
    pub(crate) active_ms: u64,
    /// The longest time for which one process runs before the next one does.
    pub(crate) slice_ms: u64,
    pub(crate) workers: usize,
    pub(crate) worker: WorkerSettings,
    pub(crate) sinks: Vec<SinkPlan>,
    pub(crate) rates: Rates,
}

/// One sink and its destination.
#[derive(Clone, Debug)]
pub(crate) struct SinkPlan {
    pub(crate) settings: SinkSettings,
    /// The area that its filter takes.
    pub(crate) area: Option<&'static str>,
    pub(crate) frozen: bool,
    /// Whether the destination stores how far it has come, with the data.
    pub(crate) stores_position: bool,
    /// Whether it says of each event what became of it, or only that a batch failed.
    pub(crate) verdicts: bool,
    /// Whether all events have one key at this destination.
    pub(crate) one_key: bool,
    /// Whether it keeps out older owners.
    pub(crate) fences: bool,
    /// Whether a sink begins with the next batch while it waits for its answer.
    pub(crate) begins_ahead: bool,
    /// How long one delivery takes at most, as a rule.
    pub(crate) latency_ms: u64,
}

/// How often something goes wrong; zero is never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) database_error: f64,
    pub(crate) lost_answer: f64,
    pub(crate) slow_call: f64,
    pub(crate) late_write: f64,
    pub(crate) transient: f64,
    pub(crate) lost_delivery: f64,
    pub(crate) partial: f64,
    pub(crate) slow_delivery: f64,
    pub(crate) late_delivery: f64,
    pub(crate) open_failure: f64,
    pub(crate) poison: f64,
    pub(crate) healing: f64,
    pub(crate) panic_or_hang: f64,
    pub(crate) killer: f64,
    pub(crate) undeliverable: f64,
    /// After how many calls a process dies, on average; zero is never.
    pub(crate) crash_after_calls: u64,
}

impl Plan {
    /// Draws a plan. What is not in `allowed` is left out; the rest is drawn as ever.
    pub(crate) fn draw(seed: u64, allowed: Faults) -> Self {
        let mut rng = stream(seed, "plan", 0);
        let hostility = rng.f64();
        let mut apart = stream(seed, "faults apart", 0);
        let drawn = Fault::ALL.into_iter().filter(|fault| {
            let chance = match fault.is_drawn_apart() {
                true => &mut apart,
                false => &mut rng,
            };
            chance.happens(0.1 + 0.6 * hostility)
        });
        let faults = drawn.filter(|fault| allowed.has(*fault)).collect();
        let workers = rng.usize(2..=3);
        let sinks = rng.u64(2..=4);
        Self {
            seed,
            faults,
            transactions: rng.u64(8..=70),
            events_each: rng.u64(1..=4),
            keys: *rng.choice(&[1, 2, 3, 5, 8, 20]).unwrap_or(&3),
            active_ms: rng.u64(20_000..=150_000),
            slice_ms: *rng.choice(&[5, 20, 60, 150]).unwrap_or(&20),
            workers: if faults.has(Fault::Workers) {
                workers
            } else {
                1
            },
            worker: worker(seed, &mut rng, faults),
            sinks: (0..sinks)
                .map(|number| SinkPlan::draw(seed, number, faults))
                .take(if faults.has(Fault::Sinks) { 4 } else { 1 })
                .collect(),
            rates: Rates::draw(seed, faults),
        }
    }
}

fn worker(seed: u64, rng: &mut Rng, faults: Faults) -> WorkerSettings {
    let save_interval = *stream(seed, "save interval", 0)
        .choice(&[0, 50, 200, 1_000, 4_000])
        .unwrap_or(&200);
    WorkerSettings {
        holder: String::new(),
        lease_ttl: Duration::from_millis(rng.u64(4_000..=20_000)),
        shutdown_timeout: Duration::from_millis(rng.u64(1_000..=8_000)),
        poll_max_interval: Duration::from_millis(rng.u64(100..=1_500)),
        cursor_save_interval: Duration::from_millis(save_interval),
        cursor_idle_save: Duration::from_millis(rng.u64(1_000..=30_000)),
        roles: Roles {
            sinks: true,
            retention: faults.has(Fault::Retention),
            http: false,
        },
        retention: RetentionSettings {
            min_age: Duration::from_millis(rng.u64(0..=20_000)),
            interval: Duration::from_millis(rng.u64(2_000..=30_000)),
        },
    }
}

impl SinkPlan {
    fn draw(seed: u64, number: u64, faults: Faults) -> Self {
        let mut rng = stream(seed, "sink", number);
        let (area, filtered) = (rng.choice(AREAS), rng.bool());
        let area = area.filter(|_| filtered && faults.has(Fault::Filters));
        let patterns = area.map(|area| format!("{area}.*").parse());
        let retry = rng.u64(200..=1_500);
        let latency_ms = *rng.choice(&[3, 20, 80]).unwrap_or(&20);
        let stores_position = stream(seed, "stores position", number).happens(0.5);
        let mut plan = Self {
            settings: SinkSettings {
                name: format!("s{number}"),
                filter: Filter {
                    types: patterns.into_iter().filter_map(Result::ok).collect(),
                    tenants: Vec::new(),
                },
                start: match rng.happens(0.1) {
                    true => Start::Head,
                    false => Start::Beginning,
                },
                batch: batch(&mut rng),
                retry: RetrySettings {
                    initial: Duration::from_millis(retry),
                    max: Duration::from_millis(retry * rng.u64(2..=16)),
                },
                delivery_timeout: Duration::from_millis(rng.u64(1_500..=8_000)),
                poison: PoisonSettings {
                    attempts: rng.u32(1..=5),
                    on_poison: match rng.happens(0.12) {
                        true => OnPoison::Halt,
                        false => OnPoison::DeadLetter,
                    },
                    max_dead_letters: *rng.choice(&[2, 5, 100]).unwrap_or(&100),
                    window: Duration::from_secs(rng.u64(30..=600)),
                },
            },
            area,
            frozen: rng.happens(0.35),
            stores_position: false,
            verdicts: rng.happens(0.7),
            one_key: rng.happens(0.15),
            fences: rng.happens(0.3) && faults.has(Fault::Fencing),
            begins_ahead: rng.happens(0.5),
            latency_ms,
        };
        // Drawn as one or the other, so that leaving the one out does not make it the other.
        plan.stores_position =
            stores_position && !plan.frozen && faults.has(Fault::StoredPositions);
        plan.frozen &= faults.has(Fault::FrozenRanges);
        plan
    }
}

fn batch(rng: &mut Rng) -> BatchOverrides {
    let waits = rng.happens(0.3);
    BatchOverrides {
        max_events: Some(*rng.choice(&[1, 2, 4, 9, 16, 30]).unwrap_or(&4)),
        max_bytes: Some(*rng.choice(&[300, 2_000, 1_000_000]).unwrap_or(&2_000)),
        max_wait: Some(Duration::from_millis(match waits {
            true => rng.u64(50..=5_000),
            false => 0,
        })),
    }
}

impl Rates {
    fn draw(seed: u64, faults: Faults) -> Self {
        let mut rng = stream(seed, "rates", 0);
        let mut rate = |fault, least, most| match (rng.spread(least, most), faults.has(fault)) {
            (rate, true) => rate,
            (_, false) => 0.0,
        };
        Self {
            database_error: rate(Fault::DatabaseErrors, 0.001, 0.08),
            lost_answer: rate(Fault::LostAnswers, 0.001, 0.08),
            slow_call: rate(Fault::SlowDatabase, 0.001, 0.03),
            late_write: rate(Fault::LateWrites, 0.1, 0.8),
            transient: rate(Fault::Transients, 0.01, 0.2),
            lost_delivery: rate(Fault::LostDeliveries, 0.01, 0.15),
            partial: rate(Fault::PartialDeliveries, 0.01, 0.3),
            slow_delivery: rate(Fault::SlowDeliveries, 0.005, 0.05),
            late_delivery: rate(Fault::LateDeliveries, 0.1, 0.8),
            open_failure: rate(Fault::OpenFailures, 0.05, 0.5),
            poison: rate(Fault::Poison, 0.01, 0.12),
            healing: rate(Fault::HealingPoison, 0.2, 0.8),
            panic_or_hang: rate(Fault::PanicsAndHangs, 0.2, 0.8),
            killer: rate(Fault::Killers, 0.005, 0.02),
            undeliverable: rate(Fault::Undeliverable, 0.01, 0.15),
            crash_after_calls: match faults.has(Fault::CrashesInCalls) {
                true => rng.u64(20..=600),
                false => 0,
            },
        }
    }
}
