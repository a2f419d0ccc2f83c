//! Deleting old rows, as the statement of the crate `outbox` does it.

use std::time::Duration;

use outbox::{Position, Pruned};

use super::World;
use super::leases::millis;

/// How many rows one statement looks at: few, so that a pass takes several.
const ROWS: usize = 7;

impl World {
    pub(crate) fn prune(&mut self, min_age: Duration, after: Position) -> Pruned {
        let now = self.database_now();
        self.outbox.flush_with_write();
        let cursors = self.cursors.iter().flatten();
        let Some(passed) = cursors.map(|row| row.position).min() else {
            return Pruned::default();
        };
        let looked_at: Vec<_> = self.outbox.between(after, passed).take(ROWS).collect();
        let mut pruned = Pruned::default();
        for (position, number) in &looked_at {
            let old = self
                .outbox
                .event(*number)
                .is_some_and(|event| event.created_at + millis(min_age) < now);
            if old {
                self.outbox.rows.remove(position);
                pruned.rows += 1;
                self.was_pruned(*number);
            }
        }
        if looked_at.len() == ROWS && pruned.rows > 0 {
            pruned.next = looked_at.last().map(|(position, _)| *position);
        }
        pruned
    }
}
