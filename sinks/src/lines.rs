//! A batch as lines: one event a line, and no line of two halves.

use outbox::Event;

use crate::{Delivery, Encoder, Refusal, Verdict};

/// The lines of one batch, and what the delivery comes to once they are durable:
/// [`Encoder::lines`] makes them.
///
/// ```
/// use outbox_sinks::{Delivery, Encoder, Event, Lines, Position};
/// let event = Event::new(Position::new(1, 2), "a.b", "{\"id\":\"e\",\n\"type\":\"a.b\"}");
/// let Lines { bytes, delivery, .. } = Encoder::default().lines(&[event]);
/// assert_eq!(bytes, b"{\"id\":\"e\", \"type\":\"a.b\",\"sequence\":\"1.2\"}\n");
/// assert_eq!(delivery, Delivery::All);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lines {
    /// The lines, each with its end. An event that can never be sent has none.
    pub bytes: Vec<u8>,
    /// What to report once the lines are durable.
    pub delivery: Delivery,
}

impl Encoder {
    /// Writes events as lines of JSON, for a destination that is a file or like one. An
    /// event that can never be sent is left out, and undeliverable.
    #[must_use]
    pub fn lines(&self, events: &[Event]) -> Lines {
        let mut bytes = Vec::new();
        let mut verdicts = Vec::with_capacity(events.len());
        for event in events {
            verdicts.push(match self.line(event, &mut bytes) {
                Ok(()) => Verdict::Delivered,
                Err(refusal) => Verdict::Undeliverable(refusal),
            });
        }
        let delivery = Delivery::from_verdicts(verdicts);
        Lines { bytes, delivery }
    }

    /// Appends the event to `out` as one line of JSON, with its end: for a destination that
    /// wants more than the lines, such as a name before each of them.
    ///
    /// ```
    /// use outbox_sinks::{Encoder, Event, Position};
    /// let event = Event::new(Position::new(1, 2), "a.b", "{\"id\":\"e\",\n\"type\":\"a.b\"}");
    /// let mut out = b"book ".to_vec();
    /// Encoder::default().line(&event, &mut out).expect("the payload is an event");
    /// assert_eq!(out, b"book {\"id\":\"e\", \"type\":\"a.b\",\"sequence\":\"1.2\"}\n");
    /// ```
    ///
    /// # Errors
    /// As [`Encoder::encode`]; `out` is as it was.
    pub fn line(&self, event: &Event, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let start = out.len();
        self.encode(event, out)?;
        flatten(out.get_mut(start..).unwrap_or_default());
        out.push(b'\n');
        Ok(())
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
    use outbox::Position;

    fn encode(payloads: &[&str]) -> Lines {
        let event = |payload: &&str| Event::new(Position::new(1, 2), "a.b", payload.to_string());
        let events: Vec<_> = payloads.iter().map(event).collect();
        Encoder::default().lines(&events)
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
