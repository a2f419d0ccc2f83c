//! The table `outbox_cursors`: claiming, settling and marking, as the statements of the
//! crate `outbox` do it. The fence is the row's own token.

use outbox::{
    Cursor, DeadLetter, Failure, Flow, Lease, Mark, Origin, Owned, Position, Settlement, Stage,
    Suspect, Then,
};
use outbox_runtime::settings::Start;

use super::World;
use super::leases::millis;
use crate::model::asks_for_a_seek;

/// A sink's cursor row.
#[derive(Clone, Debug, Default)]
pub(crate) struct CursorRow {
    pub(crate) position: Position,
    pub(crate) token: i64,
    attempts: u32,
    next_retry_at: Option<u64>,
    pub(crate) suspect: Option<SuspectRow>,
    pub(crate) in_hand: Option<Position>,
    pub(crate) delivering: bool,
    pub(crate) hunt: Option<Position>,
    pub(crate) paused: Option<String>,
    pub(crate) resumed_at: u64,
    pub(crate) seek: Option<Position>,
    /// How often an operator has decided where it goes on.
    pub(crate) generation: i64,
    pub(crate) delivered: Option<Position>,
    pub(crate) marked: Option<Position>,
    /// Why a person has to say where it goes on, as `status` shows it.
    pub(crate) stopped: Option<String>,
}

/// The columns about the event under suspicion.
#[derive(Clone, Debug)]
pub(crate) struct SuspectRow {
    pub(crate) suspect: Suspect,
    since: u64,
}

impl CursorRow {
    /// Sets the suspect: the time of the first suspicion is kept for the same event.
    fn suspect(&mut self, suspect: Option<&Suspect>, now: u64) {
        let known = self.suspect.take();
        let known = known.map(|known| (known.suspect.position, known.since));
        self.suspect = suspect.map(|suspect| SuspectRow {
            suspect: suspect.clone(),
            since: match known {
                Some((position, since)) if position == suspect.position => since,
                _ => now,
            },
        });
    }

    fn go(&mut self) {
        (self.attempts, self.next_retry_at) = (0, None);
        self.stopped = None;
    }

    fn back_off(&mut self, failure: &Failure, now: u64) {
        self.attempts = failure.attempts;
        self.next_retry_at = Some(now + millis(failure.retry_in));
        self.stopped = asks_for_a_seek(failure).then(|| failure.error.clone());
        self.suspect(failure.suspect.as_ref(), now);
    }

    /// Forgets what the cursor has passed.
    fn forget_passed(&mut self) {
        let at = self.position;
        let passed = |row: &SuspectRow| at >= row.suspect.position;
        self.suspect = self.suspect.take().filter(|row| !passed(row));
        self.in_hand = self.in_hand.filter(|in_hand| at < *in_hand);
        self.hunt = self.hunt.filter(|hunt| at < *hunt);
    }

    /// An operator lets the sink go on.
    pub(super) fn resume(&mut self, now: u64) {
        (self.paused, self.resumed_at) = (None, now);
        (self.attempts, self.next_retry_at) = (0, None);
    }

    /// The event that is tried ahead of the suspect of its own key, if that is written
    /// down: first the suspect, then the event.
    pub(crate) fn probe(&self) -> Option<(Position, Position)> {
        let suspect = &self.suspect.as_ref()?.suspect;
        match suspect.stage {
            Stage::Probing(probe) => Some((suspect.position, probe)),
            Stage::Alone | Stage::Comparing | Stage::Confirming => None,
        }
    }
}

impl World {
    pub(crate) fn cursor(&self, sink: usize) -> Option<&CursorRow> {
        self.cursors.get(sink)?.as_ref()
    }

    pub(crate) fn cursor_mut(&mut self, sink: usize) -> Option<&mut CursorRow> {
        self.cursors.get_mut(sink)?.as_mut()
    }

    /// The cursor, if this lease is the newest that has claimed it.
    fn cursor_of(&mut self, sink: usize, lease: &Lease) -> Option<&mut CursorRow> {
        let row = self.cursor_mut(sink)?;
        (row.token == lease.token).then_some(row)
    }

    pub(crate) fn claim(&mut self, sink: usize, lease: &Lease, start: Start) -> Option<Cursor> {
        let now = self.database_now();
        self.outbox.flush_with_write();
        if self.cursor(sink).is_none() {
            let position = match start {
                Start::Beginning => Position::BEGINNING,
                Start::Head => Position::before(self.outbox.horizon()),
            };
            let row = CursorRow {
                position,
                ..CursorRow::default()
            };
            self.cursor_was_made(sink, position);
            self.cursors.get_mut(sink)?.replace(row);
        }
        let row = self.cursor_mut(sink)?;
        if row.token > lease.token {
            return None;
        }
        row.token = lease.token;
        if let Some(seek) = row.seek.take() {
            let from = row.position;
            let (paused, resumed_at) = (row.paused.take(), row.resumed_at);
            let generation = row.generation + 1;
            *row = CursorRow {
                position: seek,
                token: lease.token,
                paused,
                resumed_at,
                generation,
                ..CursorRow::default()
            };
            self.cursor_was_sought(sink, from, seek);
        }
        let replays = self.replays_wait(sink);
        let row = self.cursor_mut(sink)?;
        // It is told once.
        let delivering = std::mem::take(&mut row.delivering);
        Some(Cursor {
            position: row.position,
            delivered: row.delivered,
            marked: row.marked,
            flow: Flow::new("0/0/0", row.generation),
            origin: Origin::Here,
            attempts: row.attempts,
            retry_in: row
                .next_retry_at
                .and_then(|at| at.checked_sub(now))
                .filter(|left| *left > 0)
                .map(std::time::Duration::from_millis),
            paused: row.paused.clone(),
            suspect: row.suspect.as_ref().map(|row| row.suspect.clone()),
            in_hand: row.in_hand,
            delivering,
            hunt: row.hunt,
            replays,
        })
    }

    /// Settles. `late`: whoever sent it has given up already.
    pub(crate) fn settle(
        &mut self,
        sink: usize,
        lease: &Lease,
        settlement: &Settlement,
        late: bool,
    ) -> Owned {
        let (now, horizon) = (self.database_now(), self.outbox.horizon());
        self.outbox.flush_with_write();
        let Some(row) = self.cursor_of(sink, lease) else {
            return Owned::No;
        };
        let (from, since) = (row.position, row.suspect.clone());
        if let Some(up_to) = settlement.up_to {
            if from > up_to || up_to.txid >= horizon {
                if !late {
                    self.move_was_refused(sink, from, up_to);
                }
                return Owned::No;
            }
            row.position = up_to;
        }
        row.delivered = row.delivered.max(settlement.delivered);
        row.delivering = false;
        match &settlement.then {
            Then::Go => row.go(),
            Then::BackOff(failure) => row.back_off(failure, now),
            Then::Pause(reason) => row.paused = Some(reason.clone()),
        }
        row.forget_passed();
        let to = row.position;
        for letter in &settlement.dead_letters {
            let position = letter.event.position();
            let since = since.as_ref().filter(|it| it.suspect.position == position);
            let first_failed_at = since.map_or(now, |it| it.since);
            self.bury(sink, letter, first_failed_at);
        }
        let letters: Vec<&DeadLetter> = settlement.dead_letters.iter().collect();
        self.was_settled(sink, (from, to), &letters);
        if let Then::BackOff(failure) = &settlement.then {
            self.has_stopped(sink, failure);
        }
        Owned::Yes
    }

    /// Moves a cursor that has nothing to forget, as the statement for several does.
    pub(crate) fn advance(&mut self, sink: usize, token: i64, up_to: Position) -> bool {
        let horizon = self.outbox.horizon();
        self.outbox.flush_with_write();
        let plain = |row: &&mut CursorRow| {
            let unmarked = !row.delivering && row.in_hand.is_none() && row.hunt.is_none();
            row.attempts == 0 && row.suspect.is_none() && unmarked
        };
        let row = self.cursor_mut(sink).filter(|row| row.token == token);
        let Some(row) = row.filter(plain).filter(|row| row.position < up_to) else {
            return false;
        };
        if up_to.txid >= horizon {
            return false;
        }
        let from = std::mem::replace(&mut row.position, up_to);
        self.count("cursors moved together");
        self.was_settled(sink, (from, up_to), &[]);
        true
    }

    pub(crate) fn mark(&mut self, sink: usize, lease: &Lease, mark: &Mark) -> Owned {
        let now = self.database_now();
        self.outbox.flush_with_write();
        let Some(row) = self.cursor_of(sink, lease) else {
            return Owned::No;
        };
        (row.in_hand, row.delivering, row.hunt) = (Some(mark.end), true, mark.hunt);
        row.marked = row.marked.max(Some(mark.end));
        row.suspect(mark.suspect.as_ref(), now);
        self.trial_was_written(sink);
        Owned::Yes
    }
}
