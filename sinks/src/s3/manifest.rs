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
    #[serde(skip_serializing_if = "Option::is_none")]
    complete_up_to: Option<String>,
    events: usize,
    objects: Vec<Entry>,
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
    /// The manifest of a batch; the objects' order does not matter. `complete_up_to` is
    /// the last event before the first one that is not stored, if there is any.
    pub(super) fn new(
        sink: &'a str,
        range: &PositionRange,
        complete_up_to: Option<Position>,
        mut objects: Vec<Entry>,
    ) -> Self {
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            version: VERSION,
            sink,
            first: range.first.to_string(),
            complete_up_to: complete_up_to.map(|position| position.to_string()),
            events: objects.iter().map(|object| object.events).sum(),
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

    #[test]
    fn a_manifest_does_not_depend_on_which_upload_ended_first() {
        let range = PositionRange {
            first: Position::new(1, 2),
            last: Position::new(3, 4),
        };
        let json =
            |objects| Manifest::new("warehouse", &range, Some(range.last), objects).to_json();
        let other = json(vec![entry("a"), entry("b")]);
        let json = json(vec![entry("b"), entry("a")]);
        assert_eq!(json, other);
        assert_eq!(
            String::from_utf8(json).unwrap(),
            concat!(
                r#"{"version":1,"sink":"warehouse","first":"1.2","complete_up_to":"3.4","events":4,"objects":["#,
                r#"{"key":"a","events":2,"uncompressed_bytes":10,"sha256":"00ff"},"#,
                r#"{"key":"b","events":2,"uncompressed_bytes":10,"sha256":"00ff"}]}"#,
                "\n"
            )
        );
    }

    #[test]
    fn without_a_watermark_the_field_is_left_out() {
        let range = PositionRange {
            first: Position::new(1, 2),
            last: Position::new(3, 4),
        };
        let json = Manifest::new("warehouse", &range, None, vec![entry("a")]).to_json();
        assert!(!String::from_utf8(json).unwrap().contains("complete_up_to"));
    }
}
