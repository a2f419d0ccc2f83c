//! The manifest of a batch: which objects belong to it.
//!
//! It is written after all of them are stored, so a manifest that exists speaks of
//! objects that exist. Like the objects it is a pure function of the events (OB-8): no
//! time stamp, no lengths after compression.

use outbox::Position;
use serde::Serialize;

use super::key::PositionRange;

/// Grows when a reader of the old form would misread the new one.
const VERSION: u32 = 1;

/// What a batch wrote.
#[derive(Debug, Serialize)]
pub(super) struct Manifest<'a> {
    version: u32,
    sink: &'a str,
    first: String,
    last: String,
    #[serde(flatten)]
    claim: Claim,
    events: usize,
    /// Positions of the events that can never be stored, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undeliverable: Vec<String>,
    objects: Vec<Entry>,
}

/// What a manifest says about the positions up to its last one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Claim {
    /// The sink is done with all of them. A range is delivered as a whole, and only
    /// after everything before it, so this holds once its objects are stored.
    Complete { complete_up_to: String },
    /// Nothing: its events were delivered apart from the flow.
    Apart { apart: bool },
}

/// One object of the batch.
#[derive(Debug, Serialize)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) events: usize,
    /// Before compression.
    pub(super) uncompressed_bytes: u64,
    /// Of the lines before compression.
    pub(super) sha256: String,
}

impl<'a> Manifest<'a> {
    /// The manifest of a batch. The order of both lists does not matter.
    pub(super) fn new(
        sink: &'a str,
        range: &PositionRange,
        mut undeliverable: Vec<Position>,
        mut objects: Vec<Entry>,
    ) -> Self {
        undeliverable.sort_unstable();
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        let last = range.last.to_string();
        Self {
            version: VERSION,
            sink,
            first: range.first.to_string(),
            claim: if range.apart {
                Claim::Apart { apart: true }
            } else {
                Claim::Complete {
                    complete_up_to: last.clone(),
                }
            },
            last,
            events: objects.iter().map(|object| object.events).sum(),
            undeliverable: undeliverable.iter().map(Position::to_string).collect(),
            objects,
        }
    }

    /// One line of JSON.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut json = serde_json::to_vec(self).expect("a manifest has only texts and numbers");
        json.push(b'\n');
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str) -> Entry {
        Entry {
            key: key.to_owned(),
            events: 2,
            uncompressed_bytes: 10,
            sha256: "00ff".to_owned(),
        }
    }

    fn range(apart: bool) -> PositionRange {
        PositionRange {
            first: Position::new(1, 2),
            last: Position::new(3, 4),
            apart,
        }
    }

    fn json(apart: bool, undeliverable: &[i64], keys: &[&str]) -> String {
        let undeliverable = undeliverable.iter().map(|seq| Position::new(3, *seq));
        let objects = keys.iter().map(|key| entry(key)).collect();
        let manifest = Manifest::new("warehouse", &range(apart), undeliverable.collect(), objects);
        String::from_utf8(manifest.to_json()).unwrap()
    }

    #[test]
    fn a_manifest_does_not_depend_on_which_upload_ended_first() {
        let written = json(false, &[2, 1], &["b", "a"]);
        assert_eq!(written, json(false, &[1, 2], &["a", "b"]));
        assert_eq!(
            written,
            concat!(
                r#"{"version":1,"sink":"warehouse","first":"1.2","last":"3.4","complete_up_to":"3.4","#,
                r#""events":4,"undeliverable":["3.1","3.2"],"objects":["#,
                r#"{"key":"a","events":2,"uncompressed_bytes":10,"sha256":"00ff"},"#,
                r#"{"key":"b","events":2,"uncompressed_bytes":10,"sha256":"00ff"}]}"#,
                "\n"
            )
        );
    }

    #[test]
    fn what_is_delivered_apart_claims_nothing_about_what_lies_before_it() {
        let written = json(true, &[], &["a"]);
        assert!(
            written.contains(r#""last":"3.4","apart":true,"events":2,"objects":"#),
            "{written}"
        );
        assert!(!written.contains("complete_up_to"), "{written}");
    }
}
