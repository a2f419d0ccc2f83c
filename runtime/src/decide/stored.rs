//! Where to go on when a destination says itself how far it has come.
//!
//! What it has stored is proof: a cursor that is behind it lost its last move, and follows.
//! A destination that is behind has lost data, and one that speaks of positions this
//! outbox does not know has them from elsewhere: to go on either way would skip events in
//! silence, so a person must decide. A seek is such a decision: it begins a new generation,
//! and what was stored before that counts no more.

use outbox::{Cursor, Position};
use outbox_sinks::Progress;

/// What follows from a destination's own position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The cursor is right.
    GoOn,
    /// The destination has everything up to here: the cursor follows.
    Ahead(Position),
    /// Nothing may be delivered, for this reason.
    Stop(String),
}

/// Compares what a destination has stored with the cursor. `token`: that of our lease.
#[must_use]
pub fn stored(cursor: &Cursor, token: i64, progress: Option<&Progress>) -> Stored {
    let Some(progress) = progress else {
        return behind(cursor, None, "nothing");
    };
    let (theirs, ours) = (progress.flow(), &cursor.flow);
    if theirs.generation() < ours.generation() {
        // It counts no more; but what was delivered since should be there.
        return behind(cursor, None, "nothing since the last `sinks seek`");
    }
    let position = progress.position();
    let elsewhere = if theirs.origin() != ours.origin() {
        Some("is of another outbox")
    } else if theirs.generation() > ours.generation() {
        Some("was reached after an order that this database does not know of")
    } else if progress.token() > token {
        Some("was stored under a lease that this database does not know of: it was restored")
    } else if Some(position) > cursor.marked && position > cursor.position {
        Some("lies beyond all that this database ever sent: it was restored, or lost commits")
    } else {
        None
    };
    match elsewhere {
        Some(why) => Stored::Stop(format!(
            "the position that the destination has stored, {position}, {why}: `sinks seek` says \
             where to go on (docs/operate.md, Exactly-once destinations)"
        )),
        None if position > cursor.position => Stored::Ahead(position),
        None => behind(
            cursor,
            Some(position),
            &format!("events up to {position} only"),
        ),
    }
}

/// Whether the destination lacks what was delivered to it. The cursor alone does not tell:
/// it also passes events that are filtered out or dead letters. `has`: what is there.
fn behind(cursor: &Cursor, stored: Option<Position>, has: &str) -> Stored {
    let Some(delivered) = cursor
        .delivered
        .filter(|delivered| Some(*delivered) > stored)
    else {
        return Stored::GoOn;
    };
    Stored::Stop(format!(
        "the destination has stored {has}, although events up to {delivered} were delivered to \
         it: it has lost data or is another one. `sinks seek` says where to go on \
         (docs/operate.md, Exactly-once destinations)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use outbox::Flow;
    use outbox_sinks::Session;

    const TOKEN: i64 = 3;

    fn at(seq: i64) -> Position {
        Position::new(50, seq)
    }

    fn flow(origin: &str, generation: i64) -> Flow {
        Flow::new(origin, generation)
    }

    fn progress(flow: Flow, position: Position) -> Progress {
        let session = Session::new("x", 1, Duration::from_secs(1)).in_flow(flow);
        session.progress(position)
    }

    /// A cursor at 5 in generation 7, whose destination was told to have everything to 4, and
    /// was about to get events up to 8.
    fn judged(progress: Option<&Progress>) -> Stored {
        let cursor = Cursor {
            position: at(5),
            delivered: Some(at(4)),
            marked: Some(at(8)),
            flow: flow("here", 7),
            ..Cursor::default()
        };
        stored(&cursor, TOKEN, progress)
    }

    fn after(origin: &str, generation: i64, position: Position) -> Stored {
        judged(Some(&progress(flow(origin, generation), position)))
    }

    #[track_caller]
    fn stops(judged: &Stored, because: &str) {
        let Stored::Stop(reason) = judged else {
            panic!("{judged:?}")
        };
        assert!(reason.contains(because), "{reason}");
        assert!(
            reason.contains("`sinks seek`"),
            "it says what to do: {reason}"
        );
    }

    #[test]
    fn the_cursor_follows_a_destination_that_is_ahead() {
        assert_eq!(after("here", 7, at(6)), Stored::Ahead(at(6)));
        assert_eq!(after("here", 7, at(8)), Stored::Ahead(at(8)));
    }

    #[test]
    fn what_the_cursor_passed_without_a_delivery_is_not_missed() {
        assert_eq!(after("here", 7, at(5)), Stored::GoOn);
        assert_eq!(
            after("here", 7, at(4)),
            Stored::GoOn,
            "5 is no event of this sink"
        );
    }

    #[test]
    fn a_destination_that_lost_what_it_had_stops_the_sink() {
        stops(&after("here", 7, at(3)), "up to 50.3 only");
        stops(&judged(None), "stored nothing");
    }

    #[test]
    fn an_empty_destination_that_never_had_anything_is_a_beginning() {
        let new = Cursor {
            position: at(5),
            ..Cursor::default()
        };
        assert_eq!(stored(&new, TOKEN, None), Stored::GoOn);
    }

    #[test]
    fn a_position_from_elsewhere_stops_the_sink() {
        stops(&after("there", 7, at(5)), "another outbox");
        stops(&after("there", 8, at(6)), "another outbox");
        stops(&after("here", 8, at(6)), "does not know of");
        stops(
            &after("here", 7, at(9)),
            "beyond all that this database ever sent",
        );
        let lease = Session::new("x", TOKEN + 1, Duration::from_secs(1));
        let newer = lease.in_flow(flow("here", 7)).progress(at(5));
        stops(
            &judged(Some(&newer)),
            "a lease that this database does not know of",
        );
    }

    #[test]
    fn what_was_stored_before_an_operator_decided_counts_no_more() {
        let decided = Cursor {
            position: at(5),
            flow: flow("here", 7),
            ..Cursor::default()
        };
        for origin in ["here", "there"] {
            for (generation, position) in [(6, at(9)), (0, Position::new(100, 1))] {
                let before = progress(flow(origin, generation), position);
                let judged = stored(&decided, TOKEN, Some(&before));
                assert_eq!(judged, Stored::GoOn);
            }
        }
    }

    #[test]
    fn a_destination_restored_to_before_an_operator_decided_lacks_what_came_since() {
        stops(&after("here", 6, at(9)), "stored nothing since");
    }
}
