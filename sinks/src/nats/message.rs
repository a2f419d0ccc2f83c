//! An event as a NATS message.
//!
//! Header values are percent-encoded as CloudEvents prescribes for its headers: what
//! is printable ASCII stays, and a line end in some publisher's field can neither
//! break the protocol nor panic in the client library. The encoding is one to one, so
//! two ids never become the same `Nats-Msg-Id`. A replay has another `Nats-Msg-Id` than
//! its event had: within the stream's deduplication window it would be dropped (E12).

use std::fmt::Write;

use async_nats::HeaderMap;
use bytes::Bytes;
use outbox::Event;

use super::checked::Config;
use super::subject;
use crate::{Encoder, Format, Refusal};

/// The most that JetStream stores of a message's headers, in bytes: it keeps their length
/// in 16 bits.
const MAX_HEADER_BYTES: usize = u16::MAX as usize;

/// What is sent for one event.
pub(super) struct Outgoing {
    pub(super) subject: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Headers and body in bytes, as the server counts them against its limits.
    pub(super) size: usize,
}

impl Outgoing {
    /// The message for an event.
    ///
    /// # Errors
    /// Why it can never be sent: `MALFORMED_PAYLOAD`, `MISSING_FIELD`, `ILLEGAL_SUBJECT`,
    /// or `TOO_LARGE` for its headers.
    pub(super) fn of(event: &Event, config: &Config) -> Result<Self, Refusal> {
        let mut body = Vec::with_capacity(event.payload().len() + 64);
        config.encoder.encode(event, &mut body)?;
        let subject = subject::of(event, &config.subject)?;
        let mut headers = Headers::default();
        headers.add_encoded("Nats-Msg-Id", &message_id(event));
        if let Some(stream) = &config.stream {
            headers.add("Nats-Expected-Stream", stream);
        }
        if let Some((name, count)) = Encoder::replay_header(event) {
            headers.add(name, &count);
        }
        headers.add("content-type", config.encoder.content_type());
        if config.format == Format::Native {
            headers.add("event-id", event.id());
            headers.add("event-type", event.event_type());
        }
        for (name, value) in config.encoder.attributes(event) {
            headers.add(&format!("ce-{name}"), &value);
        }
        let header_bytes = headers.bytes + "NATS/1.0\r\n\r\n".len();
        if header_bytes > MAX_HEADER_BYTES {
            return Err(Refusal::new(
                "TOO_LARGE",
                format!(
                    "{header_bytes} bytes of headers, more than the {MAX_HEADER_BYTES} that JetStream takes"
                ),
            ));
        }
        Ok(Self {
            subject,
            headers: headers.map,
            size: header_bytes + body.len(),
            body: body.into(),
        })
    }
}

#[derive(Default)]
struct Headers {
    map: HeaderMap,
    bytes: usize,
}

impl Headers {
    fn add(&mut self, name: &str, value: &str) {
        self.add_encoded(name, &percent_encoded(value));
    }

    fn add_encoded(&mut self, name: &str, value: &str) {
        self.bytes += name.len() + ": \r\n".len() + value.len();
        self.map.insert(name, value);
    }
}

/// What JetStream goes by to drop repetitions. Each replay is something new, and its own
/// repetitions are dropped as well. An encoded id has no space in it, so no other event's
/// id is the same.
fn message_id(event: &Event) -> String {
    let id = percent_encoded(event.id());
    match event.replay() {
        0 => id,
        count => format!("{id} replay:{count}"),
    }
}

/// The text with everything that is not printable ASCII, and space, `"` and `%`, as
/// `%XX` for each byte of its UTF-8.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_graphic() && character != '"' && character != '%' {
            out.push(character);
        } else {
            let mut buffer = [0; 4];
            for byte in character.encode_utf8(&mut buffer).bytes() {
                write!(out, "%{byte:02X}").expect("a String takes all");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::config::Settings;
    use outbox::Position;
    use std::collections::HashSet;

    fn outgoing(settings: &str, payload: &str) -> Result<Outgoing, Refusal> {
        let settings: Settings = toml(settings);
        let config = Config::check(settings).unwrap();
        Outgoing::of(&Event::new(Position::new(7, 9), "a.b", payload), &config)
    }

    fn toml(extra: &str) -> Settings {
        let text = format!(r#"{{"servers":["nats://localhost"]{extra}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn header<'a>(message: &'a Outgoing, name: &str) -> &'a str {
        message.headers.get(name).map_or("", |value| value.as_str())
    }

    const EVENT: &str = r#"{"id":"evt_1","type":"a.b","subject":"node/7","data":{"n":1.10}}"#;

    #[test]
    fn the_event_id_is_the_deduplication_id() {
        for format in ["native", "cloudevents", "cloudevents-binary"] {
            let message = outgoing(&format!(r#","format":"{format}""#), EVENT).unwrap();
            assert_eq!(header(&message, "Nats-Msg-Id"), "evt_1", "{format}");
            assert_eq!(message.subject, "events.a.b");
        }
    }

    /// E12.
    #[test]
    fn a_replay_has_a_deduplication_id_of_its_own_and_the_events_id() {
        let config = Config::check(toml("")).unwrap();
        let event = Event::new(Position::new(7, 9), "a.b", EVENT);
        let sent = |count| Outgoing::of(&event.clone().as_replay(count), &config).unwrap();
        let ids = [0, 1, 2].map(|count| header(&sent(count), "Nats-Msg-Id").to_owned());
        assert_eq!(ids, ["evt_1", "evt_1 replay:1", "evt_1 replay:2"]);
        assert_eq!(header(&sent(0), "outbox-replay"), "");
        assert_eq!(header(&sent(2), "outbox-replay"), "2");
        assert_eq!(header(&sent(2), "event-id"), "evt_1");
    }

    fn message_id_of(id: &str, replay: u32) -> String {
        let payload = serde_json::json!({ "id": id, "type": "a.b" }).to_string();
        message_id(&Event::new(Position::new(7, 9), "a.b", payload).as_replay(replay))
    }

    /// Two events with one deduplication id would be one event less in the stream.
    #[test]
    fn no_two_events_or_replays_have_the_same_deduplication_id() {
        let mut seen = HashSet::new();
        for separator in ["", " ", "%20", ":", "\u{a0}"] {
            for rest in [
                "",
                "replay",
                "replay:",
                "replay:1",
                "replay:1 replay:1",
                "1",
            ] {
                for count in 0..3 {
                    let id = message_id_of(&format!("evt_1{separator}{rest}"), count);
                    assert!(seen.insert(id.clone()), "{id}");
                }
            }
        }
        assert_eq!(seen.len(), 5 * 6 * 3);
    }

    #[test]
    fn binary_cloudevents_have_their_attributes_as_headers() {
        let message = outgoing(r#","format":"cloudevents-binary""#, EVENT).unwrap();
        assert_eq!(header(&message, "ce-id"), "evt_1");
        assert_eq!(header(&message, "ce-subject"), "node/7");
        assert_eq!(header(&message, "content-type"), "application/json");
        assert_eq!(&message.body[..], br#"{"n":1.10}"#);
    }

    /// E2.
    #[test]
    fn a_line_end_in_a_field_is_encoded_and_does_not_panic() {
        let payload = r#"{"id":"a\r\nb c%","type":"a.b","subject":"ü\n"}"#;
        for format in ["native", "cloudevents-binary"] {
            let message = outgoing(&format!(r#","format":"{format}""#), payload).unwrap();
            assert_eq!(header(&message, "Nats-Msg-Id"), "a%0D%0Ab%20c%25");
        }
    }

    #[test]
    fn the_size_is_that_of_body_and_headers_on_the_wire() {
        let message = outgoing("", EVENT).unwrap();
        let headers: usize = message
            .headers
            .iter()
            .flat_map(|(name, values)| {
                let name: &str = name.as_ref();
                values
                    .iter()
                    .map(move |value| name.len() + value.as_str().len() + 4)
            })
            .sum();
        assert_eq!(message.size, 12 + headers + message.body.len());
    }

    #[test]
    fn a_payload_that_is_no_event_can_never_be_sent() {
        assert_eq!(
            outgoing("", "[]").err().unwrap().code(),
            "MALFORMED_PAYLOAD"
        );
    }
}
