//! Whether a cursor and a database have the same history.
//!
//! A restored or copied database has a horizon of its own. A cursor from elsewhere
//! would idle in silence, or skip in silence; both are worse than to stop.

use outbox::{Origin, Position, Txid};

/// Why this cursor can't be used with this database, if it can't.
#[must_use]
pub fn other_history(cursor: Position, origin: Origin, horizon: Txid) -> Option<&'static str> {
    match origin {
        Origin::OtherCluster => Some(
            "the cursor was saved in another database cluster, of which this is a copy: \
             `sinks adopt` goes on here (docs/operate.md, After a restore)",
        ),
        Origin::ForeignEvents => Some(
            "the outbox holds events with transaction ids that this cluster has not given out yet: \
             `sinks adopt` makes them its own (docs/operate.md, After a restore)",
        ),
        Origin::BeyondHorizon => Some(BEYOND_HORIZON),
        Origin::Here if cursor.txid >= horizon => Some(BEYOND_HORIZON),
        Origin::Here => None,
    }
}

/// True from the moment at which it was found, also once the transaction ids have caught up.
const BEYOND_HORIZON: &str = "the cursor was found beyond all transactions of this database, \
     which was restored: `sinks seek` says where to go on (docs/operate.md, After a restore)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_another_history_is_told_from_one_at_the_very_end() {
        let end = Position::new(99, i64::MAX);
        assert_eq!(other_history(end, Origin::Here, Txid(100)), None);
        assert_eq!(
            other_history(Position::BEGINNING, Origin::Here, Txid(3)),
            None
        );
        assert!(other_history(end, Origin::OtherCluster, Txid(100)).is_some());
        assert!(other_history(end, Origin::ForeignEvents, Txid(100)).is_some());
        assert!(other_history(Position::new(100, 1), Origin::Here, Txid(100)).is_some());
        assert!(other_history(end, Origin::BeyondHorizon, Txid(200)).is_some());
    }
}
