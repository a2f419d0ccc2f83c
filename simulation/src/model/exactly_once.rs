//! What the model checks at destinations that store their position with the data: each
//! event of the flow is there exactly once, whatever was lost on the way.
//!
//! An operator's seek begins a new generation, in which events may come again; and what is
//! delivered apart from the flow no position covers.

use outbox::{Failure, Position};
use outbox_sinks::{Progress, Session};

use crate::ledger::Row;
use crate::world::{Fate, World};

/// The guarantee's name.
const EXACTLY_ONCE: &str = "exactly once";

/// What the model remembers of such a destination.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// What the owner with this token was told: the destination is ahead of the cursor.
    ahead: Option<(i64, Position)>,
    /// What it held in this generation, and has lost with a restoration.
    lost: Vec<(i64, usize)>,
    /// The generations of the cursor in which it was restored.
    restored_in: Vec<i64>,
    /// What was ever stored apart from the flow.
    apart: Vec<usize>,
}

/// Whether somebody has to decide before anything is delivered to the destination.
pub(crate) fn asks_for_a_seek(failure: &Failure) -> bool {
    failure.kind == "misconfigured"
        && failure.error.contains("the destination has stored")
        && failure.error.contains("`sinks seek`")
}

impl World {
    /// A destination did not fence an owner off: nobody newer has written before.
    pub(crate) fn was_let_in(&mut self, sink: usize, session: &Session) {
        let by = &session.progress(Position::BEGINNING);
        let stored = self.ledger(sink).and_then(|it| it.progress.as_ref());
        let newer = |it: &Progress| (generation(it), it.token()) > (generation(by), by.token());
        if stored.is_some_and(newer) {
            let seen = format!(
                "{} lets #{} in after {stored:?}",
                self.sink_name(sink),
                by.token()
            );
            self.violated(EXACTLY_ONCE, seen);
        }
    }

    /// An event becomes a row. Called before it is one.
    pub(crate) fn is_stored(&mut self, sink: usize, row: Row) {
        let (number, name) = (row.number, self.sink_name(sink).to_owned());
        let rows = self.ledger(sink).map(|ledger| ledger.rows.contains(&row));
        if !row.apart && rows == Some(true) {
            let seen = format!("{name} stores evt_{number} twice: {row:?}");
            self.violated(EXACTLY_ONCE, seen);
        }
        if self.outbox.event(number).map(|event| event.fate) == Some(Fate::Lost) {
            let seen = format!("{name} stores evt_{number}, whose commit the database has lost");
            self.violated(EXACTLY_ONCE, seen);
        }
        if let Some(account) = self.account(sink).filter(|_| row.apart) {
            account.apart.push(number);
        }
    }

    fn account(&mut self, sink: usize) -> Option<&mut Account> {
        self.model.sinks.get_mut(sink).map(|it| &mut it.account)
    }

    /// The database has lost these commits: no such destination may hold one of them.
    pub(crate) fn commits_were_lost(&mut self, lost: &[usize]) {
        for sink in 0..self.destinations.len() {
            let rows = self.ledger(sink).map_or(&[][..], |ledger| &ledger.rows);
            let held = rows.iter().find(|row| lost.contains(&row.number));
            if let Some(row) = held.copied() {
                let name = self.sink_name(sink).to_owned();
                let seen = format!("the database has lost what {name} holds: {row:?}");
                self.violated(EXACTLY_ONCE, seen);
            }
        }
    }

    /// A destination says how far it has come.
    pub(crate) fn was_asked(&mut self, sink: usize, session: &Session, told: Option<&Progress>) {
        let mine = session.progress(Position::BEGINNING);
        let row = self
            .cursor(sink)
            .filter(|row| (row.token, row.generation) == (session.token, generation(&mine)));
        let ahead = row.zip(told).and_then(|(row, told)| {
            let counts = generation(told) == row.generation && told.position() > row.position;
            counts.then_some((row.token, told.position()))
        });
        if ahead.is_some() {
            self.count("destinations ahead of the cursor");
        }
        if let Some(account) = self.account(sink) {
            account.ahead = ahead;
        }
    }

    /// A cursor moved: by following its destination?
    pub(super) fn follows(&mut self, sink: usize, to: Position) {
        let Some(account) = self.account(sink) else {
            return;
        };
        if account.ahead.take_if(|(_, up_to)| *up_to <= to).is_some() {
            self.count("cursors that followed their destination");
        }
    }

    /// An operator has decided where a sink goes on.
    pub(super) fn is_decided(&mut self, sink: usize) {
        if let Some(account) = self.account(sink) {
            account.ahead = None;
        }
    }

    /// A delivery begins. `restores`: how often the destination was restored when the sink
    /// was opened.
    pub(crate) fn may_be_sent(&mut self, sink: usize, token: i64, restores: u64) {
        let newest = self.cursor(sink).filter(|row| row.token == token);
        let Some(at) = newest.map(|row| row.position) else {
            return;
        };
        let name = self.sink_name(sink).to_owned();
        let ahead = self.account(sink).and_then(|account| account.ahead);
        if let Some((_, up_to)) = ahead.filter(|(by, up_to)| *by == token && *up_to > at) {
            let seen =
                format!("{name} delivers at {at}, and was told that all to {up_to} is there");
            self.violated(EXACTLY_ONCE, seen);
        }
        if restores == self.restores(sink)
            && let Some(number) = self.lacks(sink)
        {
            let seen = format!("{name} is delivered to, and has lost evt_{number} before {at}");
            self.violated(EXACTLY_ONCE, seen);
        }
    }

    /// An event that the cursor has passed in this generation because it was delivered,
    /// and that the destination has lost. Those that were also delivered apart are left
    /// out: no position tells whether they are there.
    fn lacks(&self, sink: usize) -> Option<usize> {
        let (row, ledger) = (self.cursor(sink)?, self.ledger(sink)?);
        let account = self.model.sinks.get(sink).map(|it| &it.account)?;
        let lost = account
            .lost
            .iter()
            .filter(|(in_it, _)| *in_it == row.generation);
        let mut lost = lost.map(|(_, number)| *number);
        lost.find(|number| {
            let seen = self.model.seen(sink, *number);
            let at = self.outbox.event(*number).map(|event| event.position);
            at.is_some_and(|at| at <= row.position)
                && seen.buried.is_none()
                && seen.skipped.is_none()
                && !account.apart.contains(number)
                && !ledger.rows.iter().any(|row| row.number == *number)
        })
    }

    /// A destination was restored to a state without these rows.
    pub(crate) fn has_lost(&mut self, sink: usize, lost: &[Row]) {
        self.count("destinations restored");
        let Some(generation) = self.cursor(sink).map(|row| row.generation) else {
            return;
        };
        if !lost.is_empty() {
            self.count("destinations that lost data");
        }
        let lost = lost.iter().filter(|row| !row.apart);
        let lost = lost.map(|row| (row.generation, row.number));
        if let Some(account) = self.account(sink) {
            account.lost.extend(lost);
            account.restored_in.push(generation);
            account.ahead = None;
        }
    }

    /// A loop stops because of what its destination says: it must have lost data.
    pub(crate) fn has_stopped(&mut self, sink: usize, failure: &Failure) {
        if !asks_for_a_seek(failure) {
            return;
        }
        self.count("sinks stopped by lost data");
        let generation = self.cursor(sink).map(|row| row.generation);
        let restored = self.account(sink).is_some_and(|account| {
            let mut restored = account.restored_in.iter();
            restored.any(|it| Some(*it) == generation)
        });
        if !restored {
            let (name, reason) = (self.sink_name(sink).to_owned(), &failure.error);
            let seen = format!("{name} stops, and its destination has lost nothing: {reason}");
            self.violated(EXACTLY_ONCE, seen);
        }
    }

    /// In the end: what a cursor has passed is there, unless there is a reason.
    pub(crate) fn nothing_is_missing(&mut self) {
        for sink in 0..self.destinations.len() {
            let missing = self.lacks(sink).or_else(|| self.misses(sink));
            if let Some(number) = missing {
                let (name, seen) = (self.sink_name(sink), self.model.seen(sink, number));
                let what = format!("evt_{number} is not at {name}: {seen:?}");
                self.violated(EXACTLY_ONCE, what);
            }
        }
    }

    /// What neither lost data nor an operator nor a dead letter explains.
    fn misses(&self, sink: usize) -> Option<usize> {
        let ledger = self.ledger(sink)?;
        let account = self.model.sinks.get(sink).map(|it| &it.account)?;
        let rows = self.outbox.rows.values().copied();
        let mut mine = rows.filter(|number| self.takes(sink, *number));
        mine.find(|number| {
            let seen = self.model.seen(sink, *number);
            seen.buried.is_none()
                && seen.skipped.is_none()
                && !account.apart.contains(number)
                && !account.lost.iter().any(|(_, lost)| lost == number)
                && !ledger.rows.iter().any(|row| row.number == *number)
        })
    }
}

fn generation(progress: &Progress) -> i64 {
    progress.flow().generation()
}
