//! What the model checks when a cursor is written: OB-1, OB-2 and OB-5.

use outbox::{DeadLetter, Lease, Position};

use crate::world::World;

impl World {
    /// A sink got its cursor: what lies before it is not its business.
    pub(crate) fn cursor_was_made(&mut self, sink: usize, at: Position) {
        self.skip(sink, Position::BEGINNING, at);
    }

    fn skip(&mut self, sink: usize, after: Position, up_to: Position) {
        let step = self.model.step();
        let rows: Vec<_> = self.outbox.between(after, up_to).collect();
        for (_, number) in rows {
            if !self.model.seen(sink, number).is_settled() {
                self.model
                    .note(sink, number, |seen| seen.skipped = Some(step));
            }
        }
    }

    /// An operator's seek was carried out. Everything after the new position has to be
    /// delivered again, and is suspected of nothing.
    pub(crate) fn cursor_was_sought(&mut self, sink: usize, from: Position, to: Position) {
        self.count(if to < from {
            "seeks back"
        } else {
            "seeks forward"
        });
        self.skip(sink, from, to);
        let step = self.model.step();
        let rows: Vec<_> = self.outbox.rows.range(to..).map(|(_, it)| *it).collect();
        for number in rows {
            if self.outbox.event(number).is_some_and(|it| it.position > to) {
                self.model.note(sink, number, |seen| {
                    seen.since = step;
                    (seen.failures, seen.deaths, seen.used_up) = (0, 0, None);
                    seen.probed_by = None;
                });
            }
        }
        if let Some(witness) = self.model.sinks.get_mut(sink) {
            witness.begun.clear();
        }
        self.is_decided(sink);
    }

    /// The newest holder wanted to move the cursor back, or past what may be read.
    pub(crate) fn move_was_refused(&mut self, sink: usize, from: Position, to: Position) {
        let name = self.sink_name(sink).to_owned();
        if to < from {
            self.violated("OB-2", format!("{name} goes from {from} back to {to}"));
        } else if !self.may_lose_commits() {
            let horizon = self.outbox.horizon();
            let seen = format!("{name} goes to {to}, which is not below the horizon {horizon}");
            self.violated("OB-5", seen);
        }
    }

    /// A settlement was committed.
    pub(crate) fn was_settled(
        &mut self,
        sink: usize,
        (from, to): (Position, Position),
        letters: &[&DeadLetter],
    ) {
        for letter in letters {
            self.was_buried(sink, letter);
        }
        if self.cursor(sink).is_some_and(|row| row.paused.is_none()) {
            self.fuse_holds(sink, letters);
        }
        let step = self.model.step();
        for letter in letters {
            if let Some(number) = crate::world::number_of(&letter.event) {
                self.model.note(sink, number, |seen| {
                    (seen.buried, seen.probed_by) = (Some(step), None);
                });
            }
        }
        let passed: Vec<_> = self.outbox.between(from, to).collect();
        for (position, number) in passed {
            if self.takes(sink, number) && !self.model.seen(sink, number).is_settled() {
                let seen = self.model.seen(sink, number);
                let name = self.sink_name(sink).to_owned();
                let what = format!(
                    "the cursor of {name} went from {from} to {to} and passed evt_{number} at {position}, which is neither delivered nor a dead letter: {seen:?}"
                );
                self.violated("OB-1", what);
            }
        }
        self.follows(sink, to);
        self.trial_was_written(sink);
    }

    /// A transaction committed: none of its events may lie behind a cursor.
    pub(crate) fn was_committed(&mut self, events: &[usize]) {
        for number in events {
            let Some(position) = self.outbox.event(*number).map(|event| event.position) else {
                continue;
            };
            for sink in 0..self.cursors.len() {
                let at = self.cursor(sink).map(|cursor| cursor.position);
                if let Some(at) = at.filter(|at| *at >= position) {
                    let name = self.sink_name(sink).to_owned();
                    let seen = format!(
                        "evt_{number} was committed at {position}, behind the cursor of {name} at {at}"
                    );
                    self.violated("OB-5", seen);
                }
            }
        }
    }

    /// A loop reads below this horizon.
    pub(crate) fn is_read(&mut self, below: outbox::Txid) {
        let horizon = self.outbox.horizon();
        if below > horizon && !self.may_lose_commits() {
            let seen = format!("a page is read below {below}, but the horizon is {horizon}");
            self.violated("OB-5", seen);
        }
    }

    /// A lease was taken. Was it left behind with one event alone in hand?
    pub(crate) fn taken(&mut self, sink: usize, lease: &Lease) {
        let name = self.sink_name(sink).to_owned();
        let abandoned = lease.abandoned;
        self.log(|| {
            format!(
                "{} takes {name} #{} ({abandoned})",
                lease.holder, lease.token
            )
        });
        self.count("takeovers");
        if !abandoned {
            return;
        }
        self.count("abandoned leases");
        if let Some(witness) = self.model.sinks.get_mut(sink) {
            for begun in witness.begun.values_mut() {
                begun.abandoned = true;
            }
        }
        let Some(row) = self.cursor(sink).filter(|row| row.delivering) else {
            return;
        };
        let (from, to) = (row.position, row.in_hand.unwrap_or(row.position));
        let in_hand: Vec<_> = self.outbox.between(from, to).map(|(_, it)| it).collect();
        let mut in_hand = in_hand.into_iter().filter(|it| self.takes(sink, *it));
        if let (Some(number), None) = (in_hand.next(), in_hand.next()) {
            let step = self.model.step();
            let wanted = self.attempts(sink);
            self.model.note(sink, number, |seen| {
                seen.deaths += 1;
                seen.last_failure = step;
                if seen.failures + seen.deaths >= wanted {
                    seen.used_up.get_or_insert(step);
                }
            });
            self.count("deaths with one event in hand");
        }
    }

    /// How often an event must fail alone.
    pub(crate) fn attempts(&self, sink: usize) -> u32 {
        let plan = self.plan.sinks.get(sink);
        plan.map_or(1, |plan| plan.settings.poison.attempts.max(1))
    }

    pub(crate) fn may_lose_commits(&self) -> bool {
        self.plan.faults.has(crate::faults::Fault::LostCommits)
    }

    /// Counts how far trials come, to know that they are seen.
    pub(crate) fn trial_was_written(&mut self, sink: usize) {
        use outbox::Stage;
        let Some(row) = self.cursor(sink) else { return };
        let hunts = row.hunt.is_some();
        let stage = row.suspect.as_ref().map(|row| row.suspect.stage);
        let counted = match stage {
            Some(Stage::Alone) => "suspects alone",
            Some(Stage::Comparing) => "suspects compared",
            Some(Stage::Probing(_)) => "probes written down",
            Some(Stage::Confirming) => "suspects confirmed",
            None if hunts => "hunts",
            None => return,
        };
        self.count(counted);
    }
}
