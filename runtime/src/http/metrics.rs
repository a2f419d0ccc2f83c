//! What `/metrics` shows, in the text format of Prometheus.
//!
//! Counters are the board's own; gauges are set from a look at it when somebody asks. Every
//! label's value comes from the configuration or from a closed set.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use outbox::CursorStatus;
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::board::{Board, Counters, OfSink, State};

/// What every name begins with.
const PREFIX: &str = "outbox_sinks";

/// All metrics of a process.
#[derive(Debug)]
pub(super) struct Metrics {
    board: Arc<Board>,
    /// The sinks of the configuration, whoever delivers them.
    sinks: Vec<String>,
    registry: Registry,
    /// Held while the gauges are set and written, so that an answer is of one moment.
    gauges: Mutex<Gauges>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    sink: String,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    sink: String,
    kind: String,
}

type Seconds = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, Default)]
struct Gauges {
    sink_info: Family<OfKind, Gauge>,
    state: Family<OfState, Gauge>,
    attempts: Family<OfSink, Gauge>,
    lease_held: Family<OfSink, Gauge>,
    lag: Family<OfSink, Gauge>,
    oldest_age: Family<OfSink, Seconds>,
    database_reachable: Gauge,
}

impl Metrics {
    pub(super) fn new(board: Arc<Board>, sinks: Vec<String>) -> Self {
        let gauges = Gauges::default();
        let mut registry = Registry::with_prefix(PREFIX);
        register_counters(&mut registry, board.counters().clone());
        register_deliveries(&mut registry, board.counters().clone());
        gauges.register(&mut registry);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of this program.", build);
        Self {
            board,
            sinks,
            registry,
            gauges: Mutex::new(gauges),
        }
    }

    /// All of them as they are now. Without `lag` those about it are left out.
    pub(super) fn text(&self, lag: Option<&[CursorStatus]>) -> String {
        let gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.look_at(&self.board);
        gauges.look_at_lag(&self.sinks, lag.unwrap_or_default());
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.registry).expect("a String takes all");
        text
    }
}

fn register_counters(registry: &mut Registry, counters: Counters) {
    registry.register(
        "delivered_events",
        "Events that the destination has acknowledged, repetitions and replays included.",
        counters.delivered_events,
    );
    registry.register_with_unit(
        "delivered_payload",
        "Bytes of the payloads that the destination has acknowledged.",
        Unit::Bytes,
        counters.delivered_payload,
    );
    registry.register(
        "delivered_replays",
        "Dead letters that were delivered again, as it was written down.",
        counters.delivered_replays,
    );
    registry.register(
        "dead_letters",
        "Events that became dead letters, as it was written down.",
        counters.dead_letters,
    );
    registry.register(
        "cursor_saves",
        "Moves of the cursor that were written.",
        counters.cursor_saves,
    );
    registry.register(
        "head_polls",
        "Looks at the head of the outbox.",
        counters.head_polls,
    );
    registry.register(
        "head_poll_failures",
        "Looks at the head that the database did not answer.",
        counters.head_poll_failures,
    );
    registry.register(
        "retention_deleted_rows",
        "Rows of the outbox that this process has deleted.",
        counters.retention_deleted_rows,
    );
}

fn register_deliveries(registry: &mut Registry, counters: Counters) {
    registry.register(
        "deliveries",
        "Attempts at a delivery, by what came of them.",
        counters.deliveries,
    );
    registry.register_with_unit(
        "delivery_duration",
        "How long the destination took to answer a delivery.",
        Unit::Seconds,
        counters.delivery_duration,
    );
    registry.register(
        "batch_events",
        "Events of a batch, as it was read.",
        counters.batch_events,
    );
    registry.register("batches", "Batches, by what closed them.", counters.batches);
}

impl Gauges {
    fn register(&self, registry: &mut Registry) {
        let all = self.clone();
        registry.register(
            "sink_info",
            "The kind of the sink's destination.",
            all.sink_info,
        );
        registry.register(
            "state",
            "1 for what the sink's loop in this process is doing, 0 for everything else.",
            all.state,
        );
        registry.register(
            "attempts",
            "Failed attempts in a row at what comes next.",
            all.attempts,
        );
        registry.register(
            "lease_held",
            "1 if this process holds the sink's lease.",
            all.lease_held,
        );
        registry.register(
            "lag_events",
            "Events that are readable and not done with; counting stops at 10000.",
            all.lag,
        );
        registry.register_with_unit(
            "oldest_undelivered_age",
            "The age of the first event that is not done with; 0 if there is none.",
            Unit::Seconds,
            all.oldest_age,
        );
        registry.register(
            "database_reachable",
            "1 if the database answered the last question, and lately.",
            all.database_reachable,
        );
    }

    fn look_at(&self, board: &Board) {
        let reachable = board.database().reachable;
        self.database_reachable.set(i64::from(reachable));
        for (sink, page) in board.sinks() {
            for state in State::ALL {
                let label = OfState {
                    sink: sink.clone(),
                    state,
                };
                let is_it = i64::from(state == page.state);
                self.state.get_or_create(&label).set(is_it);
            }
            let kind = OfKind {
                sink: sink.clone(),
                kind: page.kind,
            };
            self.sink_info.get_or_create(&kind).set(1);
            let label = OfSink { sink };
            let held = i64::from(page.state.holds_lease());
            self.lease_held.get_or_create(&label).set(held);
            let attempts = i64::from(page.attempts);
            self.attempts.get_or_create(&label).set(attempts);
        }
    }

    /// Only of configured sinks: others may be many, and are none of ours.
    fn look_at_lag(&self, configured: &[String], cursors: &[CursorStatus]) {
        self.lag.clear();
        self.oldest_age.clear();
        for cursor in cursors.iter().filter(|it| configured.contains(&it.sink)) {
            let label = OfSink {
                sink: cursor.sink.clone(),
            };
            let lag = i64::try_from(cursor.lag).unwrap_or(i64::MAX);
            self.lag.get_or_create(&label).set(lag);
            let age = match cursor.lag {
                0 => Some(0.0),
                // Of a payload without a time nobody knows.
                _ => cursor.lag_age.map(|age| age.as_secs_f64()),
            };
            if let Some(age) = age {
                self.oldest_age.get_or_create(&label).set(age);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn metrics() -> Metrics {
        let board = Arc::new(Board::default());
        board.announce("orders", "kafka");
        Metrics::new(board, vec!["orders".to_owned()])
    }

    fn lag(sink: &str, lag: u64) -> CursorStatus {
        CursorStatus {
            sink: sink.to_owned(),
            lag,
            lag_age: (lag > 0).then_some(Duration::from_millis(1_500)),
            ..CursorStatus::default()
        }
    }

    fn value(text: &str, name: &str) -> Option<String> {
        let mut lines = text.lines();
        lines.find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix(' ')
                .map(str::to_owned)
        })
    }

    /// The type of every metric, by name.
    fn types(text: &str) -> BTreeMap<&str, &str> {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.filter_map(|line| line.split_once(' ')).collect()
    }

    #[test]
    fn every_metric_is_in_the_docs_with_its_type_and_no_other_is() {
        let text = metrics().text(Some(&[lag("orders", 3)]));
        let docs = include_str!("../../../docs/operate.md");
        let rows = docs
            .lines()
            .filter_map(|line| line.strip_prefix("| `outbox_sinks_"));
        let documented: BTreeMap<_, _> = rows
            .map(|row| {
                let (name, rest) = row.split_once('`').unwrap();
                let kind = rest.split('|').nth(1).unwrap().trim();
                (format!("{PREFIX}_{name}"), kind.to_owned())
            })
            .collect();
        let real = types(&text).into_iter();
        let real = real.map(|(name, kind)| (name.to_owned(), kind.to_owned()));
        assert_eq!(documented, real.collect());
    }

    #[test]
    fn a_sink_has_all_its_counters_from_the_start() {
        let text = metrics().text(None);
        for name in [
            r#"delivered_events_total{sink="orders"}"#,
            r#"delivered_payload_bytes_total{sink="orders"}"#,
            r#"deliveries_total{sink="orders",outcome="misconfigured"}"#,
            r#"batches_total{sink="orders",closed_by="age"}"#,
            r#"delivery_duration_seconds_count{sink="orders"}"#,
            r#"attempts{sink="orders"}"#,
        ] {
            let name = format!("{PREFIX}_{name}");
            assert_eq!(
                value(&text, &name).as_deref(),
                Some("0"),
                "{name} in:\n{text}"
            );
        }
    }

    #[test]
    fn exactly_one_state_is_the_present_one() {
        let metrics = metrics();
        let page = metrics.board.announce("orders", "kafka");
        for state in State::ALL {
            page.enter(state);
            let text = metrics.text(None);
            let lines = text.lines();
            let ones: Vec<_> = lines
                .filter(|line| line.starts_with("outbox_sinks_state{") && line.ends_with(" 1"))
                .collect();
            let name = state.as_str();
            let expected = format!(r#"outbox_sinks_state{{sink="orders",state="{name}"}} 1"#);
            assert_eq!(ones, [expected]);
        }
    }

    #[test]
    fn a_lag_that_is_not_known_is_left_out_and_that_of_foreign_sinks_always() {
        let metrics = metrics();
        let known = metrics.text(Some(&[lag("orders", 7), lag("foreign", 1)]));
        let of = |text: &str, name: &str| value(text, &format!("{PREFIX}_{name}"));
        let (events, age) = (
            r#"lag_events{sink="orders"}"#,
            r#"oldest_undelivered_age_seconds{sink="orders"}"#,
        );
        assert_eq!(of(&known, events).as_deref(), Some("7"));
        assert_eq!(of(&known, age).as_deref(), Some("1.5"));
        assert!(!known.contains("foreign"));
        let unknown = metrics.text(None);
        assert!(!unknown.contains("lag_events") && !unknown.contains("oldest"));
        let caught_up = metrics.text(Some(&[lag("orders", 0)]));
        assert_eq!(of(&caught_up, age).as_deref(), Some("0.0"));
    }
}
