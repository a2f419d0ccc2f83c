//! How an event is written for a destination: `native`, `cloudevents` or
//! `cloudevents-binary`.
//!
//! In every format the event's JSON text is copied and never re-written (OB-9), and a
//! replay of a dead letter is marked as one: it has the id it always had.

use std::io::Write;

use outbox::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Refusal;

/// The form of an event at the destination.
///
/// ```
/// use outbox_sinks::Format;
/// let format: Format = serde_json::from_str("\"cloudevents-binary\"")?;
/// assert_eq!(format, Format::CloudEventsBinary);
/// assert_eq!(Format::default(), Format::Native);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// The payload as it was published, with `sequence` (`txid.seq`) added, and to a
    /// replay its number as `replay`.
    #[default]
    Native,
    /// One CloudEvents 1.0 JSON object (structured mode).
    #[serde(rename = "cloudevents")]
    CloudEvents,
    /// The data alone as body, the CloudEvents attributes as headers (binary mode).
    #[serde(rename = "cloudevents-binary")]
    CloudEventsBinary,
}

/// Writes events in one format, with one CloudEvents source.
///
/// ```
/// use outbox_sinks::{Encoder, Event, Format, Position};
/// let payload = r#"{"id":"e","type":"a.b","data":{"total":1.10}}"#;
/// let event = Event::new(Position::new(1, 2), "a.b", payload);
///
/// let mut native = Vec::new();
/// Encoder::default().encode(&event, &mut native).expect("the payload is an event");
/// let expected = br#"{"id":"e","type":"a.b","data":{"total":1.10},"sequence":"1.2"}"#;
/// assert_eq!(native, expected);
///
/// let binary = Encoder::new(Format::CloudEventsBinary, "/shop");
/// assert!(binary.attributes(&event).contains(&("source", "/shop".to_owned())));
/// ```
#[derive(Clone, Debug)]
pub struct Encoder {
    format: Format,
    source: String,
}

/// The format `native`.
impl Default for Encoder {
    fn default() -> Self {
        Self::new(Format::default(), Self::DEFAULT_SOURCE)
    }
}

impl Encoder {
    /// The CloudEvents `source` unless another is configured.
    pub const DEFAULT_SOURCE: &'static str = "/outbox";

    /// [`Self::DEFAULT_SOURCE`] as serde wants it:
    /// `#[serde(default = "Encoder::default_source")]`.
    #[must_use]
    pub fn default_source() -> String {
        Self::DEFAULT_SOURCE.to_owned()
    }

    /// An encoder; `source` is used by the CloudEvents formats only.
    pub fn new(format: Format, source: impl Into<String>) -> Self {
        Self {
            format,
            source: source.into(),
        }
    }

    /// The media type of a body in this format.
    #[must_use]
    pub const fn content_type(&self) -> &'static str {
        match self.format {
            Format::Native | Format::CloudEventsBinary => "application/json",
            Format::CloudEvents => "application/cloudevents+json",
        }
    }

    /// Appends the event's body to `out`, without a line end.
    ///
    /// # Errors
    /// `MALFORMED_PAYLOAD` if the payload is no event; `out` is as it was.
    pub fn encode(&self, event: &Event, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if let Some(defect) = event.defect() {
            return Err(Refusal::new("MALFORMED_PAYLOAD", defect));
        }
        match self.format {
            Format::Native => native(event, out),
            Format::CloudEvents => self.structured(event, out),
            Format::CloudEventsBinary => out.extend_from_slice(event.data().as_bytes()),
        }
        Ok(())
    }

    /// The CloudEvents attributes that travel as headers, in binary mode; none in
    /// the other formats. Names are without the protocol's prefix (`ce_`, `ce-`).
    #[must_use]
    pub fn attributes(&self, event: &Event) -> Vec<(&'static str, String)> {
        if self.format != Format::CloudEventsBinary {
            return Vec::new();
        }
        let mut attributes = vec![
            ("specversion", "1.0".to_owned()),
            ("id", event.id().to_owned()),
            ("source", self.source.clone()),
            ("type", event.event_type().to_owned()),
            ("sequence", sortable_sequence(event)),
        ];
        attributes.extend(optional(event).map(|(name, value)| (name, value.to_owned())));
        attributes.extend(replay(event).map(|count| ("replay", count.to_string())));
        attributes
    }

    /// The header that marks a replay in every format, where there are headers: its name
    /// and its value, which is [`Event::replay`]. None in the normal flow.
    #[must_use]
    pub fn replay_header(event: &Event) -> Option<(&'static str, String)> {
        replay(event).map(|count| ("outbox-replay", count.to_string()))
    }

    fn structured(&self, event: &Event, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"specversion":"1.0","id":"#);
        json_string(event.id(), out);
        let required = [
            ("source", self.source.as_str()),
            ("type", event.event_type()),
        ];
        for (name, value) in required.into_iter().chain(optional(event)) {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            json_string(value, out);
        }
        out.extend_from_slice(br#","sequence":""#);
        out.extend_from_slice(sortable_sequence(event).as_bytes());
        out.push(b'"');
        push_replay(event, out);
        out.extend_from_slice(br#","datacontenttype":"application/json","data":"#);
        out.extend_from_slice(event.data().as_bytes());
        out.push(b'}');
    }
}

/// Room for a `sequence` of two numbers with twenty digits each, and the brace.
const SEQUENCE_BYTES: usize = 56;

/// The payload with `sequence` and the mark of a replay put in before its closing brace:
/// one copy, and whatever else the publisher put there stays.
fn native(event: &Event, out: &mut Vec<u8>) {
    let payload = event.payload().trim_end();
    let open = payload
        .strip_suffix('}')
        .expect("a payload without a defect is a JSON object");
    out.reserve(open.len() + SEQUENCE_BYTES);
    out.extend_from_slice(open.trim_end().as_bytes());
    write!(out, ",\"sequence\":\"{}\"", event.position()).expect("a Vec takes all");
    push_replay(event, out);
    out.push(b'}');
}

/// Which replay it is, if it is one.
fn replay(event: &Event) -> Option<u32> {
    Some(event.replay()).filter(|count| *count > 0)
}

/// The mark as one more member of a JSON object. For CloudEvents it is an extension
/// attribute of the type Integer, which JSON writes as a number.
fn push_replay(event: &Event, out: &mut Vec<u8>) {
    if let Some(count) = replay(event) {
        out.extend_from_slice(format!(",\"replay\":{count}").as_bytes());
    }
}

/// Attributes that an event of another publisher may lack; CloudEvents has no
/// empty attributes.
fn optional(event: &Event) -> impl Iterator<Item = (&'static str, &str)> {
    [
        ("subject", event.subject()),
        ("time", event.time()),
        ("tenantid", event.tenant_id()),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
}

/// The CloudEvents sequence extension wants text that sorts, so the two numbers
/// are padded to their full width.
fn sortable_sequence(event: &Event) -> String {
    let position = event.position();
    format!("{:020}.{:020}", position.txid.0, position.seq)
}

fn json_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing text to memory can't fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::Position;
    use proptest::prelude::*;

    const DATA: &str = r#"{"n":1234567890123456789, "m":1.10, "k":18446744073709551616}"#;

    fn event() -> Event {
        let payload = format!(
            r#"{{"id":"evt_1","data":{DATA},"time":"2026-09-24T10:15:02.114Z","type":"node.up","subject":"node/7\"","tenantId":"ten_1"}} "#
        );
        Event::new(Position::new(88213, 51120), "node.up", payload)
    }

    fn encoded(format: Format, event: &Event) -> String {
        let mut out = Vec::new();
        Encoder::new(format, "/shop")
            .encode(event, &mut out)
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_format_passes_the_digits_on_as_they_were_written() {
        for format in [
            Format::Native,
            Format::CloudEvents,
            Format::CloudEventsBinary,
        ] {
            assert!(encoded(format, &event()).contains(DATA), "{format:?}");
        }
    }

    #[test]
    fn native_is_the_payload_with_the_sequence() {
        let value: serde_json::Value =
            serde_json::from_str(&encoded(Format::Native, &event())).unwrap();
        assert_eq!(value["sequence"], "88213.51120");
        assert_eq!(value["tenantId"], "ten_1");
        assert_eq!(value["subject"], "node/7\"");
    }

    #[test]
    fn cloudevents_has_the_required_attributes_and_a_sequence_that_sorts() {
        let value: serde_json::Value =
            serde_json::from_str(&encoded(Format::CloudEvents, &event())).unwrap();
        for (name, expected) in [
            ("specversion", "1.0"),
            ("id", "evt_1"),
            ("source", "/shop"),
            ("type", "node.up"),
            ("subject", "node/7\""),
            ("time", "2026-09-24T10:15:02.114Z"),
            ("tenantid", "ten_1"),
            ("sequence", "00000000000000088213.00000000000000051120"),
        ] {
            assert_eq!(value[name], expected, "{name}");
        }
    }

    #[test]
    fn a_replay_keeps_its_id_and_is_marked_in_every_format() {
        let again = event().as_replay(3);
        for format in [Format::Native, Format::CloudEvents] {
            let text = encoded(format, &again);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["id"], "evt_1", "{format:?}");
            assert_eq!(value["replay"], 3, "{format:?}");
            assert!(text.contains(DATA), "{format:?}");
        }
        let binary = Encoder::new(Format::CloudEventsBinary, "/shop");
        let attributes = binary.attributes(&again);
        assert!(attributes.contains(&("id", "evt_1".to_owned())));
        assert!(attributes.contains(&("replay", "3".to_owned())));
        let header = Encoder::replay_header(&again).unwrap();
        assert_eq!(header, ("outbox-replay", "3".to_owned()));
    }

    #[test]
    fn nothing_in_the_normal_flow_speaks_of_replays() {
        let event = event();
        for format in [Format::Native, Format::CloudEvents] {
            assert!(!encoded(format, &event).contains("replay"), "{format:?}");
        }
        let binary = Encoder::new(Format::CloudEventsBinary, "/shop");
        let names = binary.attributes(&event).into_iter().map(|(name, _)| name);
        assert!(!names.collect::<Vec<_>>().contains(&"replay"));
        assert_eq!(Encoder::replay_header(&event), None);
    }

    /// CloudEvents: lower-case ASCII letters and digits, 20 characters at most.
    #[test]
    fn attribute_names_are_what_cloudevents_allows() {
        let binary = Encoder::new(Format::CloudEventsBinary, "/shop");
        for (name, _) in binary.attributes(&event().as_replay(1)) {
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            assert!(name.chars().all(legal) && name.len() <= 20, "{name}");
        }
    }

    #[test]
    fn a_payload_that_is_no_event_is_refused_and_leaves_the_buffer_alone() {
        let event = Event::new(Position::new(1, 1), "a.b", "[1]");
        let mut out = b"before".to_vec();
        let refusal = Encoder::new(Format::Native, "/")
            .encode(&event, &mut out)
            .unwrap_err();
        assert_eq!(refusal.code(), "MALFORMED_PAYLOAD");
        assert_eq!(out, b"before");
    }

    proptest! {
        /// OB-9, with and without the mark of a replay, and whatever the publisher put there.
        #[test]
        fn the_marks_change_nothing_else(
            data in "\\PC{0,40}", space in "[ \n\t]{0,3}", extra: bool, count in 0u32..4,
        ) {
            let data = serde_json::Value::from(data).to_string();
            let extra = if extra { r#","replayed":1.10,"sequences":"x""# } else { "" };
            let payload = format!(r#"{{"id":"e","type":"a.b","data":{data}{extra}{space}}}{space}"#);
            let event = Event::new(Position::new(1, 2), "a.b", payload.clone()).as_replay(count);
            let text = encoded(Format::Native, &event);
            let before = payload.trim_end().strip_suffix('}').unwrap().trim_end();
            let mark = if count > 0 { format!(r#","replay":{count}"#) } else { String::new() };
            prop_assert_eq!(&text, &format!(r#"{before},"sequence":"1.2"{mark}}}"#));
            let structured = encoded(Format::CloudEvents, &event);
            let value: serde_json::Value = serde_json::from_str(&structured).unwrap();
            let replay = value.get("replay").map_or(Some(0), serde_json::Value::as_u64);
            prop_assert_eq!(replay, Some(u64::from(count)));
            let data = format!(r#""data":{data}}}"#);
            prop_assert!(structured.ends_with(&data), "{}", structured);
        }
    }
}
