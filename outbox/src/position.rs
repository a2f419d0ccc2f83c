//! Where an event stands in the outbox.
//!
//! A position is the pair that readers sort by: the transaction that wrote the
//! event, then the order of insertion. Sorting by `seq` alone would skip events,
//! because `seq` is drawn at insertion and not at commit.

use std::fmt;
use std::str::FromStr;

/// A Postgres transaction id with its epoch (`xid8`): it never wraps around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Txid(pub u64);

impl fmt::Display for Txid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An event's place in the outbox: `(txid, seq)`, compared in that order.
///
/// Written `txid.seq`, for example `88213.51120`; the colon form `88213:51120`
/// is read as well.
///
/// ```
/// use outbox::Position;
/// let position: Position = "88213.51120".parse()?;
/// assert_eq!(position, "88213:51120".parse()?);
/// assert!(position > Position::BEGINNING);
/// # Ok::<(), outbox::InvalidPosition>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The transaction that wrote the event.
    pub txid: Txid,
    /// The value drawn from the table's sequence at insertion.
    pub seq: i64,
}

impl Position {
    /// Before every event.
    pub const BEGINNING: Self = Self {
        txid: Txid(0),
        seq: 0,
    };

    /// Puts a position together from its two parts.
    #[must_use]
    pub const fn new(txid: u64, seq: i64) -> Self {
        Self {
            txid: Txid(txid),
            seq,
        }
    }

    /// The last place before a transaction, whether or not an event is there.
    #[must_use]
    pub const fn before(txid: Txid) -> Self {
        Self {
            txid: Txid(txid.0.saturating_sub(1)),
            seq: i64::MAX,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.txid, self.seq)
    }
}

/// A text that is not a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPosition(String);

impl fmt::Display for InvalidPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a position: write it as txid.seq, like 88213.51120",
            self.0
        )
    }
}

impl std::error::Error for InvalidPosition {}

impl FromStr for Position {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidPosition(text.to_owned());
        let (txid, seq) = text.split_once(['.', ':']).ok_or_else(invalid)?;
        Ok(Self {
            txid: Txid(txid.parse().map_err(|_| invalid())?),
            seq: seq.parse().map_err(|_| invalid())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn positions_sort_by_transaction_and_then_by_insertion() {
        assert!(Position::new(7, 100) < Position::new(8, 1));
        assert!(Position::new(8, 1) < Position::new(8, 2));
    }

    #[test]
    fn a_text_that_is_no_position_is_refused_with_the_form_to_write() {
        for text in ["", "1", "1.", ".1", "a.b", "1.2.3", "-1.2"] {
            let error = text.parse::<Position>().unwrap_err();
            assert!(error.to_string().contains("txid.seq"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_position_reads_back_as_it_was_written(txid: u64, seq: i64) {
            let position = Position::new(txid, seq);
            prop_assert_eq!(position.to_string().parse(), Ok(position));
        }
    }
}
