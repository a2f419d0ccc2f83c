//! A page: what one read of the outbox brought, in one piece of memory.
//!
//! Each payload is copied once, from the connection's buffer to the page's, and
//! never interpreted on the way: `jsonb` comes as a version byte and text, `json`,
//! `text` and `bytea` as they are (OB-9). An event keeps its whole
//! page alive, so the few that are taken from a large page are copied out of it.

use std::ops::Range;

use bytes::Bytes;
use bytestring::ByteString;
use sqlx::postgres::PgRow;
use sqlx::postgres::types::Oid;
use sqlx::{Row, ValueRef};

use crate::{Event, Position, Txid};

const JSONB: Oid = Oid(3802);
const JSONB_VERSION: u8 = 1;

/// Consecutive events of the outbox, in order.
#[derive(Clone, Debug)]
pub struct Page {
    /// The events that the filter takes. There may be none.
    pub events: Vec<Event>,
    /// Everything up to here is in `events` or was left out by the filter. The
    /// next page begins after it. If the page is `exhausted` this is the end of
    /// what may be read, whether or not a row is there.
    pub end: Position,
    /// Whether nothing more was there below the horizon.
    pub exhausted: bool,
    /// Whether it ended because another event would have been too much for it.
    pub full: bool,
    /// The sum of the payloads' lengths in bytes.
    pub payload_bytes: usize,
    /// The rows that were looked at, with those that the filter left out.
    pub rows_scanned: usize,
}

/// A row: its position, and the event's parts if the filter takes it.
pub(crate) struct RawRow<'r> {
    pub(crate) position: Position,
    pub(crate) event: Option<RawEvent<'r>>,
}

/// The topic and the payload as they came over the wire.
#[derive(Clone, Copy)]
pub(crate) struct RawEvent<'r> {
    pub(crate) topic: &'r [u8],
    pub(crate) payload: &'r [u8],
}

impl<'r> RawRow<'r> {
    /// Reads a row of `txid, seq, topic, payload`. Without a topic, the filter
    /// left it out; a payload that is null is empty, and so a defect.
    pub(crate) fn read(row: &'r PgRow) -> Result<Self, sqlx::Error> {
        let position = Position {
            txid: row.try_get::<Txid, _>(0)?,
            seq: row.try_get(1)?,
        };
        let topic = row.try_get_raw(2)?;
        if topic.is_null() {
            return Ok(Self {
                position,
                event: None,
            });
        }
        let payload = row.try_get_raw(3)?;
        let bytes = match payload.is_null() {
            true => &[],
            false => payload.as_bytes().map_err(sqlx::Error::Decode)?,
        };
        let bytes = if payload.type_info().oid() == Some(JSONB) {
            bytes.strip_prefix(&[JSONB_VERSION]).unwrap_or(bytes)
        } else {
            bytes
        };
        let event = RawEvent {
            topic: topic.as_bytes().map_err(sqlx::Error::Decode)?,
            payload: bytes,
        };
        Ok(Self {
            position,
            event: Some(event),
        })
    }
}

/// A page in the making.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    arena: Vec<u8>,
    rows: Vec<(Position, Range<usize>, Range<usize>)>,
    payload_bytes: usize,
}

impl Draft {
    /// Whether an event more would break a limit. A single event is never too much.
    pub(crate) fn is_full_for(
        &self,
        event: RawEvent<'_>,
        max_events: usize,
        max_bytes: usize,
    ) -> bool {
        let bytes = self.payload_bytes + event.payload.len();
        !self.rows.is_empty() && (self.rows.len() >= max_events || bytes > max_bytes)
    }

    pub(crate) fn push(&mut self, position: Position, event: RawEvent<'_>) {
        let wanted = event.topic.len() + event.payload.len();
        if self.arena.capacity() - self.arena.len() < wanted {
            // A quarter more, not twice as much: a page is bounded in bytes.
            self.arena
                .reserve_exact(wanted.max(self.arena.len() / 4).max(4096));
        }
        let topic = append(&mut self.arena, event.topic);
        let payload = append(&mut self.arena, event.payload);
        self.payload_bytes += event.payload.len();
        self.rows.push((position, topic, payload));
    }

    /// The events that `takes` takes. They share one piece of memory, unless more
    /// than half of it would be kept for nothing.
    pub(crate) fn into_events(self, takes: impl Fn(&Event) -> bool) -> Vec<Event> {
        let arena = Bytes::from(self.arena);
        let event = |(position, topic, payload): (Position, Range<usize>, Range<usize>)| {
            let topic = arena.slice(topic);
            let topic = ByteString::try_from(topic.clone())
                .unwrap_or_else(|_| String::from_utf8_lossy(&topic).into_owned().into());
            Event::from_bytes(position, topic, &arena.slice(payload))
        };
        let mut events: Vec<_> = self.rows.into_iter().map(event).filter(takes).collect();
        let bytes = |event: &Event| event.topic().len() + event.payload().len();
        if events.iter().map(bytes).sum::<usize>() < arena.len() / 2 {
            for event in &mut events {
                *event = event.detached();
            }
        }
        events
    }
}

fn append(arena: &mut Vec<u8>, bytes: &[u8]) -> Range<usize> {
    let start = arena.len();
    arena.extend_from_slice(bytes);
    start..arena.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(payload: &str) -> RawEvent<'_> {
        RawEvent {
            topic: b"a.b",
            payload: payload.as_bytes(),
        }
    }

    #[test]
    fn events_come_out_as_they_went_in() {
        let mut draft = Draft::default();
        let payloads = [
            r#"{"id":"1","type":"a.b"}"#,
            "",
            r#"{"id":"2","type":"a.b"}"#,
        ];
        for (seq, payload) in (1..).zip(payloads) {
            draft.push(Position::new(9, seq), raw(payload));
        }
        let events = draft.into_events(|_| true);
        assert_eq!(
            events.iter().map(Event::payload).collect::<Vec<_>>(),
            payloads
        );
        assert_eq!(events[2].position(), Position::new(9, 3));
        assert_eq!(events[2].topic(), "a.b");
    }

    #[test]
    fn few_events_of_a_page_do_not_keep_it_all_alive() {
        let events = |kept: i64| {
            let mut draft = Draft::default();
            for seq in 1..=10 {
                draft.push(Position::new(9, seq), raw(r#"{"id":"1","type":"a.b"}"#));
            }
            draft.into_events(|event| event.position().seq <= kept)
        };
        let few = events(4);
        assert_eq!(few.len(), 4);
        assert!(few.iter().all(Event::is_detached));
        assert_eq!(few[3].position(), Position::new(9, 4));
        assert_eq!((few[3].topic(), few[3].id()), ("a.b", "1"));
        assert!(!events(6).iter().any(Event::is_detached));
    }

    #[test]
    fn one_event_is_never_too_much_and_two_may_be() {
        let mut draft = Draft::default();
        assert!(!draft.is_full_for(raw("123456"), 1, 5));
        draft.push(Position::new(9, 1), raw("12"));
        assert!(!draft.is_full_for(raw("345"), 2, 5));
        assert!(draft.is_full_for(raw("3456"), 2, 5));
        assert!(draft.is_full_for(raw("3"), 1, 5));
    }
}
