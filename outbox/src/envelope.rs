//! The one look at a payload: where its routing fields and its data are.
//!
//! Fields are kept as ranges into the payload; only a string with escapes in it
//! needs a copy. Nothing inside `data` is interpreted, so a number, an escape or
//! a lone surrogate in there is passed on as it stands.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

const NOT_AN_EVENT: &str = "the payload is JSON, but not an event";

/// A part of the payload, in bytes. Of half the size of a `Range<usize>`: thousands of events are
/// in memory at once, and Postgres has no value of 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) fn of(self, payload: &str) -> &str {
        let range = self.start as usize..self.end as usize;
        payload
            .get(range)
            .expect("an envelope's spans lie within its payload")
    }
}

/// Where a string field of the payload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    At(Span),
    Unescaped(Box<str>),
    Missing,
}

/// Where the fields of one payload are, and what is wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) id: Field,
    pub(crate) event_type: Field,
    pub(crate) tenant_id: Field,
    pub(crate) subject: Field,
    pub(crate) time: Field,
    pub(crate) data: Option<Span>,
    pub(crate) defect: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow, rename = "type")]
    event_type: Option<Text<'a>>,
    #[serde(borrow)]
    tenant_id: Option<Text<'a>>,
    #[serde(borrow)]
    subject: Option<Text<'a>>,
    #[serde(borrow)]
    time: Option<Text<'a>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// The same, whatever the values are.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawFields<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow, rename = "type")]
    event_type: Option<&'a RawValue>,
    #[serde(borrow)]
    tenant_id: Option<&'a RawValue>,
    #[serde(borrow)]
    subject: Option<&'a RawValue>,
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// serde borrows into a `Cow` only where it is a field of its own.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Envelope {
    pub(crate) fn read(payload: &str) -> Self {
        let fields: Fields<'_> = match serde_json::from_str(payload) {
            Ok(fields) if is_object(payload) => fields,
            Ok(_) => return Self::defective(NOT_AN_EVENT),
            // Only the place: serde_json's own message can quote the payload.
            Err(error) => {
                let (rule, column) = (rule(&error), error.column());
                let defect = format!("{rule} (line {}, column {column})", error.line());
                return Self::damaged(payload, defect);
            }
        };
        let field = |value: &Option<Text<'_>>| field(payload, value.as_ref());
        let missing = [("id", &fields.id), ("type", &fields.event_type)]
            .into_iter()
            .find(|(_, value)| value.as_ref().is_none_or(|text| text.0.is_empty()));
        Self {
            id: field(&fields.id),
            event_type: field(&fields.event_type),
            tenant_id: field(&fields.tenant_id),
            subject: field(&fields.subject),
            time: field(&fields.time),
            data: fields.data.map(|data| span_within(payload, data.get())),
            defect: missing.map(|(name, _)| format!("the payload has no `{name}`").into()),
        }
    }

    /// Reads what can be read where some field is not what it should be: a filter by
    /// tenants must not pass the event over, and its dead letter should have its id.
    fn damaged(payload: &str, defect: String) -> Self {
        let fields: RawFields<'_> = match serde_json::from_str(payload) {
            Ok(fields) if is_object(payload) => fields,
            Ok(_) | Err(_) => RawFields::default(),
        };
        let field = |value: Option<&RawValue>| {
            let text = value.and_then(|value| serde_json::from_str(value.get()).ok());
            field(payload, text.as_ref())
        };
        Self {
            id: field(fields.id),
            event_type: field(fields.event_type),
            tenant_id: field(fields.tenant_id),
            subject: field(fields.subject),
            time: field(fields.time),
            data: fields.data.map(|data| span_within(payload, data.get())),
            defect: Some(defect.into()),
        }
    }

    pub(crate) fn defective(defect: impl Into<Box<str>>) -> Self {
        Self {
            id: Field::Missing,
            event_type: Field::Missing,
            tenant_id: Field::Missing,
            subject: Field::Missing,
            time: Field::Missing,
            data: None,
            defect: Some(defect.into()),
        }
    }
}

/// Where a string is that was read from a payload.
fn field(payload: &str, value: Option<&Text<'_>>) -> Field {
    match value {
        Some(Text(Cow::Borrowed(text))) => Field::At(span_within(payload, text)),
        Some(Text(Cow::Owned(text))) => Field::Unescaped(text.as_str().into()),
        None => Field::Missing,
    }
}

/// Whether JSON text is an object: serde takes an array for a struct as well, by
/// the order of its elements.
fn is_object(json: &str) -> bool {
    json.trim_start_matches([' ', '\t', '\n', '\r'])
        .starts_with('{')
}

fn rule(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        Category::Data => NOT_AN_EVENT,
        Category::Syntax | Category::Eof | Category::Io => "the payload is not JSON",
    }
}

/// The place of a string that was borrowed from `whole`.
fn span_within(whole: &str, part: &str) -> Span {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    let place = |at: usize| u32::try_from(at).expect("Postgres has no value of 4 GiB");
    Span {
        start: place(start),
        end: place(start + part.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Position};

    fn event(payload: &str) -> Event {
        Event::new(Position::new(1, 1), "a.b", payload)
    }

    #[test]
    fn digits_of_numbers_stay_as_they_were_written() {
        let data = r#"{"n":1234567890123456789,"m":1.10,"k":18446744073709551616}"#;
        let event = event(&format!(r#"{{"id":"e","type":"a.b","data":{data}}}"#));
        assert_eq!(event.data(), data);
    }

    #[test]
    fn data_that_no_string_type_can_hold_is_no_defect() {
        let event = event(r#"{"id":"e","type":"a.b","data":{"z":"\u0000","s":"\ud800"}}"#);
        assert_eq!(event.defect(), None);
        assert_eq!(event.data(), r#"{"z":"\u0000","s":"\ud800"}"#);
    }

    #[test]
    fn fields_without_escapes_are_not_copied() {
        let envelope = Envelope::read(r#"{"id":"e","type":"a.b","subject":"node/7"}"#);
        assert_eq!(envelope.id, Field::At(Span { start: 7, end: 8 }));
        assert!(matches!(envelope.subject, Field::At(_)));
    }

    #[test]
    fn a_defect_does_not_quote_the_payload() {
        let event = event(r#"{"id":["hush"],"type":"a.b"}"#);
        assert!(!event.defect().unwrap().contains("hush"));
    }

    #[test]
    fn escaped_fields_are_unescaped() {
        let event = event(r#"{"id":"e\"1","type":"a.b","subject":"node\/7"}"#);
        assert_eq!(event.id(), "e\"1");
        assert_eq!(event.subject(), "node/7");
        assert_eq!(event.data(), "null");
    }

    #[test]
    fn what_is_no_event_is_a_defect_and_not_a_failure() {
        for payload in [
            "",
            "[]",
            r#"["evt_1","a.b","t","s","now",1]"#,
            " \n[\"evt_1\",\"a.b\",\"t\",\"s\",\"now\",1]",
            "null",
            "{",
            r#"{"type":"a.b"}"#,
            r#"{"id":"","type":"a.b"}"#,
        ] {
            assert!(event(payload).defect().is_some(), "{payload}");
        }
        let array = event(r#"["evt_1","a.b","t","s","now",1]"#);
        assert_eq!(array.defect(), Some(NOT_AN_EVENT));
        let spaced = event(" \t\r\n{\"id\":\"e\",\"type\":\"a.b\"}");
        assert_eq!(spaced.defect(), None);
        let bytes = Event::from_bytes(Position::new(1, 1), "a.b".into(), &vec![0xff, 0xfe].into());
        assert!(bytes.defect().is_some());
    }

    #[test]
    fn what_can_be_read_beside_a_defect_is_read() {
        let event = event(
            r#"{"id":"e","type":5,"tenantId":"t","subject":"\udc00","time":"\u0031","data":[1]}"#,
        );
        assert!(event.defect().is_some());
        assert_eq!((event.id(), event.tenant_id()), ("e", "t"));
        assert_eq!((event.event_type(), event.subject()), ("", ""));
        assert_eq!((event.time(), event.data()), ("1", "[1]"));
    }

    #[test]
    fn debugging_an_event_shows_no_payload() {
        let shown = format!("{:?}", event(r#"{"id":"e","type":"a.b","data":"hush"}"#));
        assert!(!shown.contains("hush"), "{shown}");
    }
}
