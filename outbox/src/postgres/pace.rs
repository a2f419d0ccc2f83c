//! How many rows to ask for, so that a page fills up and little more is sent.
//!
//! Postgres counts rows and memory counts bytes. The guess between them is made
//! from what was read before, and errs on the side of too few: it follows a rise
//! in size at once and a fall by halves.

/// The most rows of one statement when a filter leaves most of them out.
const MAX_SCAN: u64 = 20_000;

/// What one reader has seen so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    bytes_per_row: u64,
    rows_per_event: u64,
}

impl Pace {
    /// Nothing was seen yet: every row may have the largest payload that the
    /// rules allow.
    pub(crate) const fn unknown() -> Self {
        Self {
            bytes_per_row: 65_536,
            rows_per_event: 1,
        }
    }

    /// The number of rows to ask for: at least one.
    pub(crate) fn rows(&self, max_events: usize, max_bytes: usize) -> u64 {
        let (max_events, max_bytes) = (wide(max_events), wide(max_bytes));
        let by_bytes = max_bytes / self.bytes_per_row.max(1);
        let by_events = max_events.saturating_mul(self.rows_per_event.max(1));
        by_bytes.min(by_events).min(max_events.max(MAX_SCAN)).max(1)
    }

    /// Learns from a page: so many rows were looked at, so many of them made
    /// events, with so many bytes.
    pub(crate) fn learn(&mut self, rows: usize, events: usize, bytes: usize) {
        if rows == 0 {
            return;
        }
        let (rows, events, bytes) = (wide(rows), wide(events), wide(bytes));
        let size = bytes.div_ceil(rows);
        self.bytes_per_row = if size > self.bytes_per_row {
            size
        } else {
            self.bytes_per_row.midpoint(size)
        };
        let sparseness = rows / events.max(1);
        self.rows_per_event = if sparseness < self.rows_per_event {
            sparseness
        } else {
            self.rows_per_event.midpoint(sparseness)
        };
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_page_of_large_events_is_small() {
        assert_eq!(Pace::unknown().rows(1_000, 1_048_576), 16);
    }

    #[test]
    fn small_events_soon_fill_a_page() {
        let mut pace = Pace::unknown();
        for _ in 0..12 {
            let rows = usize::try_from(pace.rows(1_000, 1_048_576)).unwrap();
            pace.learn(rows, rows, rows * 300);
        }
        assert_eq!(pace.rows(1_000, 1_048_576), 1_000);
    }

    #[test]
    fn a_filter_that_takes_nothing_soon_scans_many_rows_at_once() {
        let mut pace = Pace::unknown();
        for _ in 0..32 {
            let rows = usize::try_from(pace.rows(500, 1_048_576)).unwrap();
            pace.learn(rows, 0, 0);
        }
        assert_eq!(pace.rows(500, 1_048_576), MAX_SCAN);
    }

    #[test]
    fn larger_events_are_noticed_at_once() {
        let mut pace = Pace::unknown();
        (0..20).for_each(|_| pace.learn(1_000, 1_000, 300_000));
        pace.learn(2, 2, 2_000_000);
        assert_eq!(pace.rows(1_000, 1_048_576), 1);
    }

    proptest! {
        #[test]
        fn the_number_of_rows_is_within_its_bounds(
            pages in prop::collection::vec((0usize..100_000, 0usize..100_000, 0usize..1 << 40), 0..20),
            max_events in 1usize..1_000_000,
            max_bytes in 1usize..1 << 40,
        ) {
            let mut pace = Pace::unknown();
            for (rows, events, bytes) in pages {
                pace.learn(rows, events.min(rows), bytes);
            }
            let rows = pace.rows(max_events, max_bytes);
            prop_assert!(rows >= 1);
            prop_assert!(rows <= wide(max_events).max(MAX_SCAN));
        }
    }
}
