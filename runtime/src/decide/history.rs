//! Whether a cursor and a database have the same history.
//!
//! A restored or copied database has a horizon of its own. A cursor from elsewhere
//! would idle in silence, or skip in silence; both are worse than to stop.

use outbox::{Position, Txid};

/// Why this cursor can't be used with this database, if it can't.
#[must_use]
pub fn other_history(cursor: Position, foreign: bool, horizon: Txid) -> Option<&'static str> {
    if foreign {
        Some("the cursor was saved in another database cluster, of which this is a copy")
    } else if cursor.txid >= horizon {
        Some("the cursor lies beyond all transactions of this database, which was restored")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_another_history_is_told_from_one_at_the_very_end() {
        let end = Position::new(99, i64::MAX);
        assert_eq!(other_history(end, false, Txid(100)), None);
        assert_eq!(other_history(Position::BEGINNING, false, Txid(3)), None);
        assert!(other_history(end, true, Txid(100)).is_some());
        assert!(other_history(Position::new(100, 1), false, Txid(100)).is_some());
    }
}
