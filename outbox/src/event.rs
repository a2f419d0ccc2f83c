//! An event as a sink sees it.
//!
//! The payload's text is kept as Postgres wrote it (OB-9) and only looked at,
//! once, for the few fields that routing needs. Cloning an event copies a
//! reference to its page and not the payload.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;

use crate::Position;
use crate::envelope::{Envelope, Field};

const NOT_TEXT: &str = "the payload is not UTF-8 text";

/// One committed event of the outbox.
///
/// A payload that is not the JSON object it should be still makes an event, so
/// that whoever meets it can say what is wrong with it: see [`Event::defect`].
///
/// ```
/// use outbox::{Event, Position};
/// let event = Event::new(
///     Position::new(88213, 51120),
///     "node.connected",
///     r#"{"id":"evt_1","type":"node.connected","tenantId":"ten_1","subject":"node/7","time":"2026-09-24T10:15:02.114Z","data":{"n":1.10}}"#,
/// );
/// assert_eq!(event.area(), "node");
/// assert_eq!(event.subject(), "node/7");
/// assert_eq!(event.data(), r#"{"n":1.10}"#);
/// ```
#[derive(Clone)]
pub struct Event {
    position: Position,
    topic: ByteString,
    payload: ByteString,
    envelope: Envelope,
    replay: u32,
}

impl Event {
    /// Looks at a payload and makes the event of it. Never fails: what is wrong
    /// with the payload is in [`Event::defect`].
    pub fn new(
        position: Position,
        topic: impl Into<ByteString>,
        payload: impl Into<ByteString>,
    ) -> Self {
        let payload = payload.into();
        let envelope = Envelope::read(&payload);
        Self {
            position,
            topic: topic.into(),
            payload,
            envelope,
            replay: 0,
        }
    }

    /// The same for bytes that may not be text (a `bytea` column, or a database
    /// without an encoding). Bytes that are not UTF-8 are a defect.
    #[must_use]
    pub fn from_bytes(position: Position, topic: ByteString, payload: &Bytes) -> Self {
        match ByteString::try_from(payload.clone()) {
            Ok(text) => Self::new(position, topic, text),
            Err(_) => Self {
                position,
                topic,
                payload: String::from_utf8_lossy(payload).into_owned().into(),
                envelope: Envelope::defective(NOT_TEXT),
                replay: 0,
            },
        }
    }

    /// The same event as the `count`-th replay of a dead letter.
    #[must_use]
    pub const fn as_replay(mut self, count: u32) -> Self {
        self.replay = count;
        self
    }

    /// Which replay of a dead letter this is, counted from 1; zero in the normal flow.
    /// A replay has the id it always had; a destination that discards duplicates must
    /// take it all the same.
    #[must_use]
    pub const fn replay(&self) -> u32 {
        self.replay
    }

    /// Where the event stands in the outbox.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The row's topic: the event's type, as filters see it.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The whole payload, byte for byte as Postgres wrote it.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// The stable identity; receivers discard duplicates by it. Empty if the
    /// payload has none.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text(&self.envelope.id)
    }

    /// What happened, as `area.name`.
    #[must_use]
    pub fn event_type(&self) -> &str {
        self.text(&self.envelope.event_type)
    }

    /// The type up to its first dot: `node` of `node.command.queued`.
    #[must_use]
    pub fn area(&self) -> &str {
        self.event_type().split('.').next().unwrap_or_default()
    }

    /// The tenant that may read the event.
    #[must_use]
    pub fn tenant_id(&self) -> &str {
        self.text(&self.envelope.tenant_id)
    }

    /// What the event is about, as `kind/id`.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.text(&self.envelope.subject)
    }

    /// When the event was published, as the payload's RFC 3339 text.
    #[must_use]
    pub fn time(&self) -> &str {
        self.text(&self.envelope.time)
    }

    /// The event's data as raw JSON text; `null` if the payload has none.
    #[must_use]
    pub fn data(&self) -> &str {
        match &self.envelope.data {
            Some(span) => span.of(&self.payload),
            None => "null",
        }
    }

    /// Why the payload can't be sent as an event, if it can't.
    #[must_use]
    pub fn defect(&self) -> Option<&str> {
        self.envelope.defect.as_deref()
    }

    /// Why a copy of the payload as a Postgres text is not the payload, if it is not.
    #[cfg(feature = "postgres")]
    pub(crate) fn damage(&self) -> Option<&str> {
        let altered = self.payload.contains('\0') || self.defect() == Some(NOT_TEXT);
        self.defect().filter(|_| altered)
    }

    /// The event that such a copy was made of: it can't be sent, whatever the copy
    /// looks like.
    #[cfg(feature = "postgres")]
    pub(crate) fn with_damage(mut self, damage: Option<String>) -> Self {
        if let Some(damage) = damage {
            self.envelope.defect = Some(damage.into());
        }
        self
    }

    /// The same event in memory of its own, which keeps no page alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self {
            position: self.position,
            topic: String::from(&*self.topic).into(),
            payload: String::from(&*self.payload).into(),
            envelope: self.envelope.clone(),
            replay: self.replay,
        }
    }

    /// Whether nothing else keeps the payload's memory.
    #[cfg(all(test, feature = "postgres"))]
    pub(crate) fn is_detached(&self) -> bool {
        self.payload.as_bytes().is_unique()
    }

    fn text<'a>(&'a self, field: &'a Field) -> &'a str {
        match field {
            Field::At(span) => span.of(&self.payload),
            Field::Unescaped(text) => text,
            Field::Missing => "",
        }
    }
}

/// Prints where and what the event is, and not its payload: events end up in
/// logs and panics, where other people's data has no business.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("position", &format_args!("{}", self.position))
            .field("topic", &self.topic)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}
