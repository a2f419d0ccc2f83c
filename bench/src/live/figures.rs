//! Latencies as people quote them, and as they are compared.

use std::fmt;

use serde::Serialize;

use crate::stats::{median, quantile};

/// Four quantiles, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Half of the events were quicker.
    pub(super) p50: f64,
    /// Nine in ten.
    pub(super) p90: f64,
    /// All but one in a hundred.
    pub(super) p99: f64,
    /// All but one in a thousand.
    pub(super) p999: f64,
}

impl Figures {
    /// Those of latencies in order of size.
    #[must_use]
    pub(super) fn of(sorted: &[f64]) -> Self {
        let at = |q| quantile(sorted, q);
        let (p50, p90, p99, p999) = (at(0.5), at(0.9), at(0.99), at(0.999));
        Self {
            p50,
            p90,
            p99,
            p999,
        }
    }

    /// The medians of several runs.
    #[must_use]
    pub(super) fn medians(runs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(runs.iter().map(figure));
        Self {
            p50: of(|run| run.p50),
            p90: of(|run| run.p90),
            p99: of(|run| run.p99),
            p999: of(|run| run.p999),
        }
    }

    /// What stands above a column of them.
    pub(super) const HEADING: &str = "     p50     p90     p99   p99.9";
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            p50,
            p90,
            p99,
            p999,
        } = self;
        write!(f, "{p50:8.2}{p90:8.2}{p99:8.2}{p999:8.2}")
    }
}
