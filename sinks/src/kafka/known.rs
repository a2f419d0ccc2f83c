//! Which keys a producer has delivered something for: their partitions know it.
//!
//! A broker that knows a producer refuses a request whose predecessor it refused, by the
//! sequence numbers. To one that it does not know yet it grants any first number, so a
//! successor that is already under way would overtake (OB-4). So of a key that is new
//! only one event is under way until it is acknowledged, and all others of that key wait.
//!
//! Partitions are what matters, but the client chooses them. Each key has one, so keys
//! stand for them, and after enough keys every partition has been met.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use super::message::Message;

/// So many keys leave none of 5,000 partitions out, and take a few megabytes.
const ENOUGH: usize = 100_000;

/// The keys that a producer has delivered something for, as hashes.
#[derive(Debug, Default)]
pub(super) struct Known {
    keys: HashSet<u64>,
    hasher: RandomState,
}

/// The keys of one delivery that are new.
#[derive(Debug, Default)]
pub(super) struct Newcomers(HashSet<u64>);

impl Known {
    /// Whether a message may be sent now. If it is the first one of its key, the key is
    /// noted as new; further ones have to wait until it [is known](Self::meet). So have
    /// those whose key is new with the batch `before` it.
    pub(super) fn admits(
        &self,
        message: &Message<'_>,
        before: &Newcomers,
        new: &mut Newcomers,
    ) -> bool {
        // Without a key there is no order to keep.
        let Some(key) = message.key else {
            return true;
        };
        if self.keys.len() >= ENOUGH {
            return true;
        }
        let key = self.hasher.hash_one((message.topic, key));
        self.keys.contains(&key) || (!before.0.contains(&key) && new.0.insert(key))
    }

    /// Takes note that the first messages of these keys are acknowledged.
    pub(super) fn meet(&mut self, new: Newcomers) {
        self.keys.extend(new.0);
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::message::OwnedHeaders;

    use super::*;

    fn admits(known: &Known, new: &mut Newcomers, topic: &str, key: Option<&str>) -> bool {
        let message = Message {
            topic,
            key,
            body: &[],
            headers: OwnedHeaders::new(),
            header_bytes: 0,
        };
        known.admits(&message, &Newcomers::default(), new)
    }

    #[test]
    fn of_a_new_key_one_message_is_under_way_until_it_is_acknowledged() {
        let (mut known, mut new) = (Known::default(), Newcomers::default());
        assert!(admits(&known, &mut new, "t", Some("a")));
        assert!(!admits(&known, &mut new, "t", Some("a")));
        assert!(admits(&known, &mut new, "t", Some("b")), "another key");
        assert!(admits(&known, &mut new, "u", Some("a")), "another topic");
        known.meet(new);
        let mut new = Newcomers::default();
        for _ in 0..2 {
            assert!(admits(&known, &mut new, "t", Some("a")));
        }
        assert!(admits(&known, &mut new, "t", Some("c")));
        assert!(!admits(&known, &mut new, "t", Some("c")));
    }

    #[test]
    fn a_key_that_is_new_with_the_batch_before_waits_in_the_next() {
        let message = |key| Message {
            topic: "t",
            key: Some(key),
            body: &[],
            headers: OwnedHeaders::new(),
            header_bytes: 0,
        };
        let (mut known, mut before, mut new) =
            (Known::default(), Newcomers::default(), Newcomers::default());
        assert!(admits(&known, &mut before, "t", Some("a")));
        assert!(!known.admits(&message("a"), &before, &mut new));
        assert!(known.admits(&message("b"), &before, &mut new));
        known.meet(before);
        assert!(known.admits(&message("a"), &Newcomers::default(), &mut new));
    }

    #[test]
    fn messages_without_a_key_wait_for_nothing() {
        let (known, mut new) = (Known::default(), Newcomers::default());
        for _ in 0..2 {
            assert!(admits(&known, &mut new, "t", None));
        }
    }

    #[test]
    fn the_memory_is_bounded_and_then_every_partition_has_been_met() {
        let mut known = Known::default();
        known.meet(Newcomers((0..).take(ENOUGH).collect()));
        let mut new = Newcomers::default();
        for _ in 0..2 {
            assert!(admits(&known, &mut new, "t", Some("a")));
        }
        assert!(new.0.is_empty());
    }
}
