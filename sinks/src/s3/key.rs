//! The names of objects: prefix, partition, range, hash.
//!
//! `outbox/type=node.up/dt=2026-09-24/<first>-<last>-<hash>.ndjson.zst`, where `first`
//! and `last` are the positions of the *batch* and not of the partition's events, so
//! that all objects of a batch share a stem that sorts in outbox order. The hash is of
//! what is in the object before compression. So the same range with the same
//! content always has the same name, and another content never takes it: neither after
//! the settings changed between two attempts, nor from another database, nor when an
//! owner that was thought dead wakes up.
//!
//! What is delivered apart from the flow (replays, above all) has `-apart` after the hash:
//! it lies in the same partitions under a name that the flow never gives. Its manifests
//! are in a folder of their own, since their positions are old: among the others nobody
//! would find them who reads on from the last name he knows.

use outbox::{Event, Position};

use super::partition::{self, PartitionBy};
use crate::{Batch, Refusal};

/// S3's limit for a key, in bytes of UTF-8.
const MAX_KEY_BYTES: usize = 1024;

/// No name within a partition is longer: two positions, the hash, the longest
/// extension, and some room.
const MAX_NAME_BYTES: usize = 128;

/// How many hexadecimal digits of the content's SHA-256 are in a name. The whole of
/// it is in the object's metadata.
const HASH_DIGITS: usize = 16;

/// Where objects are put.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Empty, or ends with `/`.
    pub(super) prefix: String,
    pub(super) partition_by: Vec<PartitionBy>,
    /// Of data objects: `ndjson.zst`.
    pub(super) extension: &'static str,
}

impl Layout {
    /// The folder of an event's object: prefix and partition, empty or ending with `/`.
    pub(super) fn folder(&self, event: &Event) -> Result<String, Refusal> {
        let mut folder = self.prefix.clone();
        partition::render(&self.partition_by, event, &mut folder);
        if folder.len() + MAX_NAME_BYTES > MAX_KEY_BYTES {
            return Err(Refusal::new(
                "KEY_TOO_LONG",
                format!(
                    "the object's key would exceed S3's {MAX_KEY_BYTES} bytes: its folder has {}",
                    folder.len()
                ),
            ));
        }
        Ok(folder)
    }

    /// The key of a data object.
    pub(super) fn object(&self, folder: &str, range: &PositionRange, sha256: &str) -> String {
        format!("{folder}{}.{}", range.name(sha256), self.extension)
    }

    /// The key of the manifest. Readers of Hive-style folders skip what begins with `_`.
    pub(super) fn manifest(&self, range: &PositionRange, sha256: &str) -> String {
        let folder = if range.apart {
            "_manifests_apart"
        } else {
            "_manifests"
        };
        format!("{}{folder}/{}.json", self.prefix, range.name(sha256))
    }
}

/// From the first to the last position of a batch, both included.
#[derive(Clone, Copy, Debug)]
pub(super) struct PositionRange {
    pub(super) first: Position,
    pub(super) last: Position,
    /// Whether the batch is delivered apart from the flow, so that it says nothing about
    /// what lies before it, or between its events.
    pub(super) apart: bool,
}

impl PositionRange {
    pub(super) fn of(batch: &Batch) -> Self {
        Self {
            first: batch.first().position(),
            last: batch.end(),
            apart: batch.is_apart(),
        }
    }

    fn name(&self, sha256: &str) -> String {
        let hash = sha256.get(..HASH_DIGITS).unwrap_or(sha256);
        let apart = if self.apart { "-apart" } else { "" };
        format!("{}-{}-{hash}{apart}", padded(self.first), padded(self.last))
    }
}

/// Padded to the full width of both numbers, so that names sort as positions do.
fn padded(position: Position) -> String {
    format!("{:020}.{:020}", position.txid.0, position.seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn layout() -> Layout {
        Layout {
            prefix: "outbox/".to_owned(),
            partition_by: vec![PartitionBy::Type],
            extension: "ndjson.zst",
        }
    }

    fn range(first: Position, last: Position) -> PositionRange {
        PositionRange {
            first,
            last,
            apart: false,
        }
    }

    #[test]
    fn a_name_holds_the_batchs_range_and_the_contents_hash() {
        let range = range(Position::new(88213, 51120), Position::new(88214, 51117));
        assert_eq!(
            layout().object("outbox/type=node.up/", &range, HASH),
            "outbox/type=node.up/00000000000000088213.00000000000000051120\
             -00000000000000088214.00000000000000051117-0123456789abcdef.ndjson.zst"
        );
        assert_eq!(
            layout().manifest(&range, HASH),
            "outbox/_manifests/00000000000000088213.00000000000000051120\
             -00000000000000088214.00000000000000051117-0123456789abcdef.json"
        );
    }

    #[test]
    fn what_is_delivered_apart_lies_in_the_same_folder_under_a_name_of_its_own() {
        let flow = range(Position::new(1, 2), Position::new(3, 4));
        let apart = PositionRange {
            apart: true,
            ..flow
        };
        let [flow_key, apart_key] =
            [flow, apart].map(|range| layout().object("outbox/type=node.up/", &range, HASH));
        assert_eq!(
            apart_key,
            flow_key.replace(".ndjson.zst", "-apart.ndjson.zst")
        );
        let [flow_key, apart_key] = [flow, apart].map(|range| layout().manifest(&range, HASH));
        assert!(flow_key.starts_with("outbox/_manifests/"));
        assert!(apart_key.starts_with("outbox/_manifests_apart/"));
        assert!(apart_key.ends_with("-apart.json"));
    }

    #[test]
    fn a_folder_that_leaves_no_room_for_the_name_is_undeliverable() {
        let event = |event_type: &str| {
            let payload = format!(r#"{{"id":"e","type":"{event_type}"}}"#);
            Event::new(Position::new(1, 1), event_type.to_owned(), payload)
        };
        let refusal = layout().folder(&event(&"x".repeat(1000))).unwrap_err();
        assert_eq!(refusal.code(), "KEY_TOO_LONG");
        let longest = MAX_KEY_BYTES - MAX_NAME_BYTES - "outbox/type=/".len();
        let folder = layout().folder(&event(&"x".repeat(longest))).unwrap();
        let widest = PositionRange {
            apart: true,
            ..range(
                Position::new(u64::MAX, i64::MAX),
                Position::new(u64::MAX, i64::MIN),
            )
        };
        assert!(layout().object(&folder, &widest, HASH).len() <= MAX_KEY_BYTES);
    }

    proptest! {
        #[test]
        fn names_sort_as_positions_do(
            a: u64, b in 0i64.., c: u64, d in 0i64..,
        ) {
            let (left, right) = (Position::new(a, b), Position::new(c, d));
            let name = |position| range(position, position).name(HASH);
            prop_assert_eq!(name(left).cmp(&name(right)), left.cmp(&right));
        }
    }
}
