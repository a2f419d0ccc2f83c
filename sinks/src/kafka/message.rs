//! From an event to a Kafka message: topic, key, body and headers, written into
//! buffers that are used again for the next event.

use outbox::Event;
use rdkafka::message::{Header, OwnedHeaders};

use super::config::Settings;
use super::names;
use super::verdicts::Route;
use crate::{Encoder, Refusal, Template};

/// Writes messages, one at a time.
pub(super) struct Writer {
    topic: Topic,
    key: Template,
    encoder: Encoder,
    topic_text: String,
    key_text: String,
    body: Vec<u8>,
}

enum Topic {
    /// Checked when the configuration was read.
    Fixed,
    Rendered(Template),
}

/// One message. It borrows from its [`Writer`].
pub(super) struct Message<'a> {
    pub(super) topic: &'a str,
    /// `None` if the template gives an empty text.
    pub(super) key: Option<&'a str>,
    pub(super) body: &'a [u8],
    pub(super) headers: OwnedHeaders,
    /// The headers' part of the message's size.
    pub(super) header_bytes: usize,
}

impl Writer {
    pub(super) fn new(settings: &Settings) -> Self {
        let (topic, topic_text) = match settings.topic.as_fixed() {
            Some(fixed) => (Topic::Fixed, fixed.to_owned()),
            None => (Topic::Rendered(settings.topic.clone()), String::new()),
        };
        Self {
            topic,
            key: settings.key.clone(),
            encoder: Encoder::new(settings.format, settings.source.clone()),
            topic_text,
            key_text: String::new(),
            body: Vec::new(),
        }
    }

    /// Writes the message for an event.
    ///
    /// # Errors
    /// If the event can never be a message: it is no event, it lacks a field that a
    /// template needs, or the topic's name is illegal.
    pub(super) fn write(&mut self, event: &Event) -> Result<Message<'_>, Refusal> {
        self.body.clear();
        self.encoder.encode(event, &mut self.body)?;
        self.address(event)?;
        let (headers, header_bytes) = self.headers(event);
        Ok(Message {
            topic: &self.topic_text,
            key: (!self.key_text.is_empty()).then_some(self.key_text.as_str()),
            body: &self.body,
            headers,
            header_bytes,
        })
    }

    /// Where an event goes, if it can go anywhere.
    pub(super) fn route(&mut self, event: &Event) -> Option<Route> {
        self.address(event).ok()?;
        Some(Route {
            topic: self.topic_text.clone(),
            key: (!self.key_text.is_empty()).then(|| self.key_text.clone()),
        })
    }

    fn address(&mut self, event: &Event) -> Result<(), Refusal> {
        if let Topic::Rendered(template) = &self.topic {
            self.topic_text.clear();
            template.render_to(event, &mut self.topic_text)?;
            names::check_topic(&self.topic_text)?;
        }
        self.key_text.clear();
        self.key.render_to(event, &mut self.key_text)
    }

    /// `id`, `type`, `content-type` and the mark of a replay in every format; the
    /// CloudEvents attributes as `ce_…` in binary mode.
    fn headers(&self, event: &Event) -> (OwnedHeaders, usize) {
        let attributes = self.encoder.attributes(event);
        let mut headers = OwnedHeaders::new_with_capacity(4 + attributes.len());
        let mut bytes = 0;
        let mut add = |name: &str, value: &str, headers: OwnedHeaders| {
            bytes += header_size(name, value);
            let value = Some(value);
            headers.insert(Header { key: name, value })
        };
        headers = add("id", event.id(), headers);
        headers = add("type", event.event_type(), headers);
        headers = add("content-type", self.encoder.content_type(), headers);
        if let Some((name, value)) = Encoder::replay_header(event) {
            headers = add(name, &value, headers);
        }
        for (attribute, value) in &attributes {
            headers = add(&format!("ce_{attribute}"), value, headers);
        }
        (headers, bytes)
    }
}

impl Message<'_> {
    /// The size that librdkafka compares with `message.max.bytes`: the parts, and the
    /// largest overhead that the format can have.
    pub(super) fn size(&self) -> usize {
        const OVERHEAD: usize = 36;
        OVERHEAD + self.key.map_or(0, str::len) + self.body.len() + self.header_bytes
    }
}

/// A header on the wire: name and value, each after its length as a varint.
fn header_size(name: &str, value: &str) -> usize {
    varint_size(name.len()) + name.len() + varint_size(value.len()) + value.len()
}

/// The size of a length as Kafka's zigzag varint: 7 bits a byte, of twice the value.
const fn varint_size(length: usize) -> usize {
    let mut rest = length << 1;
    let mut size = 1;
    while rest >= 0x80 {
        rest >>= 7;
        size += 1;
    }
    size
}
