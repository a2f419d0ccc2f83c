//! Common points in time: what several loops put off until the next one falls together.

use std::time::Duration;

use tokio::time::Instant;

/// Points in time at equal distances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    origin: Instant,
    step: Duration,
}

impl Grid {
    pub(crate) const fn new(origin: Instant, step: Duration) -> Self {
        Self { origin, step }
    }

    /// The first point after `now`: at most one step away. Without a step that is `now`.
    pub(crate) fn after(&self, now: Instant) -> Instant {
        let passed = now.saturating_duration_since(self.origin).as_nanos();
        let into = match self.step.as_nanos() {
            0 => return now,
            step => passed % step,
        };
        let into = u64::try_from(into).map_or(self.step, Duration::from_nanos);
        now + self.step.saturating_sub(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_a_step_nothing_is_put_off() {
        let now = Instant::now();
        assert_eq!(Grid::new(now, Duration::ZERO).after(now), now);
    }

    proptest! {
        #[test]
        fn the_next_point_is_at_most_a_step_away_and_the_same_for_all(
            step in 1_u64..5_000_000, first in 0_u64..50_000_000, apart in 0_u64..5_000_000,
        ) {
            let (origin, micros) = (Instant::now(), Duration::from_micros);
            let grid = Grid::new(origin, micros(step));
            let now = origin + micros(first);
            let next = grid.after(now);
            prop_assert!(next > now && next <= now + micros(step));
            let later = now + micros(apart);
            if later < next {
                prop_assert_eq!(grid.after(later), next);
            }
            prop_assert!(grid.after(next) == next + micros(step));
        }
    }
}
