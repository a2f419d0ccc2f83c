//! A batch as lines: one event a line, and no line of two halves.

use outbox::Event;

use crate::{Delivery, Encoder, Verdict};

/// Writes events as lines.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    encoder: Encoder,
}

/// The lines of one batch, and what the delivery comes to once they are written.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) bytes: Vec<u8>,
    pub(super) delivery: Delivery,
}

impl Lines {
    pub(super) fn new(encoder: Encoder) -> Self {
        Self { encoder }
    }

    /// The lines of these events, without those that can never be sent.
    pub(super) fn encode(&self, events: &[Event]) -> Encoded {
        let mut bytes = Vec::new();
        let mut verdicts = Vec::with_capacity(events.len());
        for event in events {
            let start = bytes.len();
            match self.encoder.encode(event, &mut bytes) {
                Ok(()) => {
                    flatten(bytes.get_mut(start..).unwrap_or_default());
                    bytes.push(b'\n');
                    verdicts.push(Verdict::Delivered);
                }
                Err(refusal) => verdicts.push(Verdict::Undeliverable(refusal)),
            }
        }
        let delivery = Delivery::from_verdicts(verdicts);
        Encoded { bytes, delivery }
    }
}

/// Turns line ends into spaces. In JSON they stand between tokens only, never inside a
/// text or a number, so nothing that means something changes (OB-9).
fn flatten(json: &mut [u8]) {
    for byte in json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use outbox::Position;

    fn encode(payloads: &[&str]) -> Encoded {
        let event = |payload: &&str| Event::new(Position::new(1, 2), "a.b", payload.to_string());
        let events: Vec<_> = payloads.iter().map(event).collect();
        Lines::new(Encoder::new(Format::Native, "/")).encode(&events)
    }

    #[test]
    fn a_payload_of_several_lines_becomes_one_line_with_the_same_digits() {
        let encoded = encode(&[
            "{\"id\":\"e\",\r\n \"type\":\"a.b\",\n\"data\":{\"n\":1.10,\"s\":\"a\\nb\"}\n}\n",
        ]);
        let text = String::from_utf8(encoded.bytes).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.contains(r#"{"n":1.10,"s":"a\nb"}"#), "{text}");
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }

    #[test]
    fn an_event_that_can_never_be_sent_leaves_no_line() {
        let encoded = encode(&["[]", r#"{"id":"e","type":"a.b"}"#]);
        assert_eq!(
            encoded.bytes.iter().filter(|byte| **byte == b'\n').count(),
            1
        );
        let Delivery::Each(verdicts) = encoded.delivery else {
            panic!("one was refused")
        };
        assert!(matches!(verdicts[0], Verdict::Undeliverable(_)));
        assert_eq!(verdicts[1], Verdict::Delivered);
    }
}
