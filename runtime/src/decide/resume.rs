//! Where to go on from what the last holder left in the cursor row.
//!
//! A process that dies leaves its lease to run out. Who takes over can't know what
//! killed it, so until the cursor has passed what may have been in hand, every
//! delivery is written down first; a range that was in hand at the next death is
//! halved. So an event that kills the process is found, and in normal flight nothing
//! is written ahead.

use outbox::{Cursor, Position};

use super::Before;

/// How a tenure begins.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// The end of the range that must come first, exactly as it was.
    pub exact: Option<Position>,
    /// What the first batch begins with.
    pub before: Before,
    /// Until where every delivery is written down first.
    pub hunt: Hunt,
}

/// How far the hunt for an event that kills the process goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hunt {
    /// There is none.
    No,
    /// To the end of the next batch that is read: it is what was in hand, or more.
    NextBatch,
    /// Up to here.
    Until(Position),
}

/// Reads a claimed cursor. `abandoned`: whether its last holder let the lease run out.
#[must_use]
pub fn resume(cursor: &Cursor, abandoned: bool, frozen: bool) -> Resumption {
    let died = abandoned && cursor.delivering;
    let hunted = died && cursor.hunt.is_some();
    let suspected = cursor.suspect.is_some();
    let ahead = cursor.in_hand.filter(|end| *end > cursor.position);
    Resumption {
        // A suspect is singled out anyway; what it was compared with need not come first.
        exact: ahead.filter(|_| frozen || (hunted && !suspected)),
        before: Before {
            // One more failure is the second at least.
            failures: cursor.attempts.min(1),
            suspect: cursor.suspect.clone(),
            died: hunted || (died && suspected),
            in_hand: ahead,
        },
        hunt: match cursor.hunt {
            Some(end) => Hunt::Until(end),
            None if abandoned => Hunt::NextBatch,
            None => Hunt::No,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::{Stage, Suspect};

    const HERE: Position = Position::new(9, 9);

    fn marked() -> Cursor {
        Cursor {
            position: Position::new(1, 1),
            in_hand: Some(HERE),
            delivering: true,
            ..Cursor::default()
        }
    }

    #[test]
    fn a_lease_that_was_released_begins_no_hunt() {
        let begun = resume(&marked(), false, false);
        assert_eq!((begun.exact, begun.hunt), (None, Hunt::No));
        assert!(!begun.before.died);
    }

    #[test]
    fn the_first_death_begins_a_hunt_and_blames_nobody() {
        let begun = resume(&Cursor::default(), true, false);
        assert_eq!((begun.exact, begun.hunt), (None, Hunt::NextBatch));
        assert!(!begun.before.died);
    }

    #[test]
    fn a_death_in_a_hunt_is_laid_to_the_range_in_hand() {
        let hunted = Cursor {
            hunt: Some(Position::new(20, 1)),
            ..marked()
        };
        let begun = resume(&hunted, true, false);
        assert_eq!(begun.exact, Some(HERE));
        assert_eq!(begun.hunt, Hunt::Until(Position::new(20, 1)));
        assert!(begun.before.died);
        let idle = Cursor {
            delivering: false,
            ..hunted
        };
        assert!(!resume(&idle, true, false).before.died);
    }

    #[test]
    fn a_frozen_range_comes_again_whoever_has_let_go_of_it() {
        for abandoned in [false, true] {
            let begun = resume(&marked(), abandoned, true);
            assert_eq!(begun.exact, Some(HERE));
            assert!(!begun.before.died, "one death says nothing yet");
        }
        let passed = Cursor {
            position: HERE,
            ..marked()
        };
        assert_eq!(resume(&passed, false, true).exact, None);
    }

    #[test]
    fn a_death_in_a_trial_counts_without_a_hunt() {
        let tried = Cursor {
            suspect: Some(Suspect {
                position: HERE,
                attempts: 5,
                stage: Stage::Confirming,
                code: String::new(),
                error: String::new(),
            }),
            ..marked()
        };
        assert!(resume(&tried, true, false).before.died);
        assert!(!resume(&tried, false, false).before.died);
    }
}
