//! Medians of ratios, and quantiles.

use std::fmt;

/// A ratio as it came out of several rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// In order of size.
    rounds: Vec<f64>,
}

impl Ratio {
    /// The ratios of the rounds; `None` if there was no round.
    #[must_use]
    pub fn of(rounds: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut rounds: Vec<_> = rounds.into_iter().collect();
        rounds.sort_by(f64::total_cmp);
        (!rounds.is_empty()).then_some(Self { rounds })
    }

    /// The one in the middle.
    #[must_use]
    pub fn median(&self) -> f64 {
        quantile(&self.rounds, 0.5)
    }

    /// The least and the greatest.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        (quantile(&self.rounds, 0.0), quantile(&self.rounds, 1.0))
    }
}

/// `median (min to max)`.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, greatest) = self.range();
        write!(f, "{:.2} ({least:.2} to {greatest:.2})", self.median())
    }
}

/// The value below which a share `q` of the sorted values lies, between neighbours in proportion;
/// zero if there are none.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index into a slice, rounded down"
)]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let place = q * last as f64;
    let at = |index: usize| sorted.get(index.min(last)).copied().unwrap_or_default();
    let below = place as usize;
    let share = place - below as f64;
    at(below) * (1.0 - share) + at(below + 1) * share
}

/// The value in the middle.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Ratio::of(values).map_or(0.0, |ratio| ratio.median())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle_whatever_the_order() {
        let ratio = Ratio::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((ratio.median(), ratio.range()), (2.0, (1.0, 3.0)));
        assert_eq!(median([1.0, 2.0]), 1.5);
        assert_eq!(Ratio::of([]), None);
    }

    #[test]
    fn quantiles_reach_from_the_least_to_the_greatest() {
        let values: Vec<_> = (0..=100).map(f64::from).collect();
        for (q, value) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(quantile(&values, q), value);
        }
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
