//! What was published: the ids that have to arrive, and those that must not.
//!
//! An id takes about 30 bytes here, so an hour at 500 events a second takes 54 MB; the
//! runs that this is for last seconds to minutes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// An event's id, compact: `evt_` and 26 characters of Crockford base32 are 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CompactId(u128);

impl CompactId {
    const PREFIX: &str = "evt_";
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

    /// `None` for a text that is not an id of the outbox.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?.as_bytes();
        // 26 digits are 130 bits: the first one holds three.
        let first = digits.first()?;
        if digits.len() != 26 || !(b'0'..=b'7').contains(first) {
            return None;
        }
        let id = digits.iter().try_fold(0, |id: u128, digit| {
            let value = Self::ALPHABET.iter().position(|letter| letter == digit)?;
            Some((id << 5) | value as u128)
        });
        id.map(Self)
    }
}

impl std::fmt::Display for CompactId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Self::PREFIX)?;
        for position in (0..26).rev() {
            let value = (self.0 >> (5 * position)) & 31;
            let letter = usize::try_from(value)
                .ok()
                .and_then(|value| Self::ALPHABET.get(value));
            write!(
                f,
                "{}",
                char::from(*letter.expect("five bits are one of 32 letters"))
            )?;
        }
        Ok(())
    }
}

/// How a transaction ended, for what it had published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed,
    RolledBack,
    /// The commit failed: nobody knows whether it took place.
    Unknown,
}

/// The ids by outcome.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Published {
    /// Have to arrive.
    pub(super) committed: HashSet<CompactId>,
    /// Must not arrive.
    pub(super) rolled_back: HashSet<CompactId>,
    /// May arrive.
    pub(super) unknown: HashSet<CompactId>,
}

/// The record that all publishers write.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    published: Mutex<Published>,
    committed: AtomicU64,
}

impl Ledger {
    /// Notes the ids of one transaction.
    pub(super) fn note(&self, ids: &[CompactId], outcome: Outcome) {
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let set = match outcome {
            Outcome::Committed => &mut published.committed,
            Outcome::RolledBack => &mut published.rolled_back,
            Outcome::Unknown => &mut published.unknown,
        };
        set.extend(ids);
        self.committed
            .store(published.committed.len() as u64, Ordering::Relaxed);
    }

    /// How many events were committed so far.
    pub(super) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Ends the record.
    pub(super) fn take(&self) -> Published {
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_that_is_no_id_is_not_taken_for_one() {
        for text in [
            "",
            "evt_",
            "01k5y3v0m6y8x7w5t4s3r2p1n0",
            "evt_01k5y3v0m6y8x7w5t4s3r2p1n",
            "evt_01k5y3v0m6y8x7w5t4s3r2p1n00",
            "evt_01k5y3v0m6y8x7w5t4s3r2p1nu",
            "evt_81k5y3v0m6y8x7w5t4s3r2p1n0",
        ] {
            assert_eq!(CompactId::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_id_reads_back_as_it_was_written(id: u128) {
            prop_assert_eq!(CompactId::parse(&CompactId(id).to_string()), Some(CompactId(id)));
        }
    }
}
