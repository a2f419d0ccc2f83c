//! The table `outbox_dead_letters`.

use std::time::Duration;

use outbox::{DeadLetter, Event, Lease, Owned, Position, Replay, ReplayOutcome};

use super::World;
use super::leases::millis;

/// A dead letter: its id is its place in the table, counted from 1.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) sink: usize,
    pub(crate) event: Event,
    pub(crate) code: String,
    pub(crate) attempts: u32,
    pub(crate) first_failed_at: u64,
    pub(crate) dead_lettered_at: u64,
    pub(crate) state: State,
    replays: u32,
}

/// What has become of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Dead,
    Replaying,
    Replayed,
    Discarded,
}

impl World {
    /// Inserts a dead letter. One that is settled already comes back to life.
    pub(super) fn bury(&mut self, sink: usize, letter: &DeadLetter, first_failed_at: u64) {
        let now = self.database_now();
        let position = letter.event.position();
        let same = |known: &&mut Letter| known.sink == sink && known.event.position() == position;
        match self.letters.iter_mut().find(same) {
            Some(known) => match known.state {
                State::Dead | State::Replaying => {}
                State::Replayed | State::Discarded => {
                    known.code.clone_from(&letter.code);
                    known.attempts = letter.attempts;
                    (known.first_failed_at, known.dead_lettered_at) = (first_failed_at, now);
                    known.state = State::Dead;
                }
            },
            None => self.letters.push(Letter {
                sink,
                event: letter.event.clone(),
                code: letter.code.clone(),
                attempts: letter.attempts,
                first_failed_at,
                dead_lettered_at: now,
                state: State::Dead,
                replays: 0,
            }),
        }
    }

    pub(crate) fn recent_letters(
        &mut self,
        sink: usize,
        window: Duration,
        except: &[Position],
    ) -> u32 {
        let since = self.database_now().saturating_sub(millis(window));
        let since = since.max(self.cursor(sink).map_or(0, |cursor| cursor.resumed_at));
        let recent = |letter: &&Letter| {
            letter.sink == sink
                && letter.dead_lettered_at > since
                && !except.contains(&letter.event.position())
        };
        u32::try_from(self.letters.iter().filter(recent).count()).unwrap_or(u32::MAX)
    }

    pub(crate) fn replays_wait(&self, sink: usize) -> bool {
        let waits = |letter: &Letter| letter.sink == sink && letter.state == State::Replaying;
        self.letters.iter().any(waits)
    }

    pub(crate) fn replays(&self, sink: usize, limit: u32) -> Vec<Replay> {
        let waits = |(_, it): &(i64, &Letter)| it.sink == sink && it.state == State::Replaying;
        let mut waiting: Vec<_> = (1..).zip(&self.letters).filter(waits).collect();
        waiting.sort_by_key(|(_, letter)| letter.event.position());
        waiting.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let replays = waiting.into_iter().map(|(id, letter)| Replay {
            id,
            event: letter.event.clone().as_replay(letter.replays + 1),
        });
        replays.collect()
    }

    pub(crate) fn settle_replays(
        &mut self,
        sink: usize,
        lease: &Lease,
        outcomes: &[(i64, ReplayOutcome)],
    ) -> Owned {
        self.outbox.flush_with_write();
        if self.cursor(sink).is_none_or(|row| row.token != lease.token) {
            return Owned::No;
        }
        for (id, outcome) in outcomes {
            let place = id.checked_sub(1).and_then(|id| usize::try_from(id).ok());
            let letter = place.and_then(|place| self.letters.get_mut(place));
            let open = |state| matches!(state, State::Replaying | State::Dead);
            let Some(letter) = letter.filter(|letter| open(letter.state)) else {
                continue;
            };
            let event = letter.event.clone();
            let waited = letter.state == State::Replaying;
            match outcome {
                ReplayOutcome::Delivered => letter.state = State::Replayed,
                ReplayOutcome::Refused { code, .. } => {
                    letter.state = State::Dead;
                    letter.code.clone_from(code);
                }
                ReplayOutcome::Postponed => {
                    letter.replays -= u32::from(!waited);
                    letter.state = State::Replaying;
                    continue;
                }
            }
            letter.replays += u32::from(waited);
            let delivered = *outcome == ReplayOutcome::Delivered;
            self.replay_was_settled(sink, &event, delivered);
        }
        Owned::Yes
    }
}
