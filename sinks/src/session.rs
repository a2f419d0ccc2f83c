//! What a sink is told when it is opened, and what it makes of a position that its
//! destination has stored.

use std::time::Duration;

use outbox::{Flow, Position};

use crate::{Progress, SinkError};

/// What a sink is told when it is opened.
///
/// ```
/// use std::time::Duration;
/// use outbox_sinks::Session;
/// let session = Session::new("orders", 7, Duration::from_secs(60));
/// let owner = format!("{}#{}", session.sink, session.token);
/// assert_eq!(owner, "orders#7");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Session {
    /// The sink's name in the configuration.
    pub sink: String,
    /// The lease's token: it grows with every takeover, so a destination that can
    /// compare it can fence off an older owner.
    pub token: i64,
    /// How long one delivery may take. After that the runtime drops the call,
    /// counts it as failed and opens the sink anew.
    pub delivery_timeout: Duration,
    /// The run of positions that the sink's events come from.
    flow: Flow,
}

impl Session {
    /// A session, as the runtime makes it (and a test of a sink may).
    pub fn new(sink: impl Into<String>, token: i64, delivery_timeout: Duration) -> Self {
        Self {
            sink: sink.into(),
            token,
            delivery_timeout,
            flow: Flow::default(),
        }
    }

    /// The same session in another flow.
    #[must_use]
    pub fn in_flow(self, flow: Flow) -> Self {
        Self { flow, ..self }
    }

    /// What to store, in the transaction that stores the events, once everything up to
    /// `position` is stored.
    #[must_use]
    pub fn progress(&self, position: Position) -> Progress {
        Progress::new(self.flow.clone(), self.token, position)
    }

    /// The same progress under this session's token, if it is of the same flow and of an older
    /// owner. A sink that stores it when it is [asked](crate::Sink::progress) fences that owner off at
    /// once, and not only with its first delivery.
    #[must_use]
    pub fn renewed(&self, stored: &Progress) -> Option<Progress> {
        let older = *stored.flow() == self.flow && stored.token() < self.token;
        older.then(|| self.progress(stored.position()))
    }

    /// Up to where events of this session are stored already, by what the destination has
    /// stored last: [`Position::BEGINNING`] if there is nothing, or an operator has sent
    /// the cursor elsewhere since. Look at it in each delivery's own transaction, with the
    /// row locked: then a delivery whose answer was lost is not repeated, and an owner that
    /// is none any more writes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Fenced`](crate::ErrorKind::Fenced) if somebody newer has written,
    /// [`ErrorKind::Misconfigured`](crate::ErrorKind::Misconfigured) if it was somebody
    /// from another outbox.
    pub fn stored_up_to(&self, stored: Option<&Progress>) -> Result<Position, SinkError> {
        let Some(stored) = stored else {
            return Ok(Position::BEGINNING);
        };
        let (theirs, ours) = (stored.flow(), &self.flow);
        if theirs.generation() < ours.generation() {
            return Ok(Position::BEGINNING);
        }
        if theirs.origin() != ours.origin() {
            return Err(SinkError::misconfigured(
                "go on where the destination says: its position is of another outbox",
                "give each outbox a destination, or a sink's name, of its own",
            ));
        }
        if (theirs.generation(), stored.token()) > (ours.generation(), self.token) {
            return Err(SinkError::fenced(
                "deliver: an owner with a newer lease has written to the destination",
            ));
        }
        Ok(stored.position())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const HERE: Position = Position::new(7, 3);

    fn session(origin: &str, generation: i64, token: i64) -> Session {
        Session::new("x", token, Duration::from_secs(1)).in_flow(Flow::new(origin, generation))
    }

    /// What the second session makes of what the first has stored.
    fn seen(first: &Session, second: &Session) -> Result<Position, ErrorKind> {
        let stored = first.progress(HERE);
        let seen = second.stored_up_to(Some(&stored));
        seen.map_err(|error| error.kind())
    }

    #[test]
    fn a_position_counts_for_the_same_and_for_a_newer_owner() {
        let first = session("1/2", 0, 5);
        assert_eq!(seen(&first, &first), Ok(HERE));
        assert_eq!(seen(&first, &session("1/2", 0, 6)), Ok(HERE));
        assert_eq!(first.stored_up_to(None).ok(), Some(Position::BEGINNING));
    }

    #[test]
    fn an_older_owners_progress_is_renewed_and_nobody_elses() {
        let stored = session("1/2", 0, 5).progress(HERE);
        let renewed = session("1/2", 0, 6).renewed(&stored);
        assert_eq!(renewed, Some(session("1/2", 0, 6).progress(HERE)));
        for other in [
            session("1/2", 0, 5),
            session("1/2", 0, 4),
            session("1/2", 9, 6),
            session("3/4", 0, 6),
        ] {
            assert_eq!(other.renewed(&stored), None);
        }
    }

    #[test]
    fn an_older_owner_is_fenced_off() {
        let older = session("1/2", 0, 4);
        assert_eq!(seen(&session("1/2", 0, 5), &older), Err(ErrorKind::Fenced));
        let before_a_seek = session("1/2", 0, 9);
        let after_it = session("1/2", 100, 8);
        assert_eq!(seen(&after_it, &before_a_seek), Err(ErrorKind::Fenced));
    }

    #[test]
    fn what_was_stored_before_an_operator_decided_counts_no_more() {
        let before = session("1/2", 0, 9);
        assert_eq!(
            seen(&before, &session("1/2", 100, 9)),
            Ok(Position::BEGINNING)
        );
        assert_eq!(
            seen(&before, &session("3/4", 100, 1)),
            Ok(Position::BEGINNING)
        );
    }

    #[test]
    fn a_position_of_another_outbox_is_never_taken_for_our_own() {
        let theirs = session("1/2", 0, 5);
        let misconfigured = Err(ErrorKind::Misconfigured);
        assert_eq!(seen(&theirs, &session("3/4", 0, 6)), misconfigured);
        assert_eq!(
            seen(&session("1/2", 100, 5), &session("3/4", 0, 6)),
            misconfigured
        );
    }
}
