//! What the model still waits for when nothing goes wrong any more.

use outbox::sink_lease;

use super::Witness;
use crate::world::World;

impl Witness {
    /// After a crash that lost commits, other events stand at the same positions.
    pub(crate) fn forget_ranges(&mut self) {
        self.begun.clear();
    }
}

impl World {
    /// What is not done yet; `alive` are the names of the processes that run.
    pub(crate) fn open(&mut self, alive: &[String]) -> Option<String> {
        let mut held = vec![0_usize; alive.len()];
        for sink in 0..self.cursors.len() {
            if let Some(open) = self.open_at(sink) {
                return Some(open);
            }
            let (lease, now) = (sink_lease(self.sink_name(sink)), self.database_now());
            let holder = self.leases.holder(&lease, now);
            let place = alive.iter().position(|it| Some(it.as_str()) == holder);
            match place.and_then(|place| held.get_mut(place)) {
                Some(count) => *count += 1,
                None => return Some(format!("{lease} is held by {holder:?}, of {alive:?}")),
            }
        }
        let (least, most) = (held.iter().min()?, held.iter().max()?);
        (most - least > 1).then(|| format!("the sinks are spread unevenly: {held:?} of {alive:?}"))
    }

    fn open_at(&self, sink: usize) -> Option<String> {
        let name = self.sink_name(sink);
        let Some(row) = self.cursor(sink) else {
            return Some(format!("{name} has no cursor"));
        };
        if row.paused.is_some() || row.seek.is_some() {
            return Some(format!("{name} has not obeyed: {row:?}"));
        }
        if self
            .outbox
            .newest()
            .is_some_and(|newest| row.position < newest)
        {
            return Some(format!("{name} has not come to the head: {row:?}"));
        }
        let rows = self.outbox.rows.values();
        let mut mine = rows.filter(|number| self.takes(sink, **number));
        let open = mine.find(|number| !self.model.seen(sink, **number).is_settled());
        if let Some(number) = open {
            let seen = self.model.seen(sink, *number);
            return Some(format!("{name} has not settled evt_{number}: {seen:?}"));
        }
        self.replays_wait(sink)
            .then(|| format!("{name} has not replayed what was ordered"))
    }

    pub(crate) fn counted(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }
}
