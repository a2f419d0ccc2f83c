//! An event that is still to be made: the kit fixes who it is, an author what it holds.

use outbox::{Event, Position};

/// An event of the kit before it is made, to be changed into one that a destination does
/// not take. Its position, its id and, unless it is changed, its key stay what they are.
///
/// ```
/// use outbox_sinks::conformance::Draft;
/// use outbox_sinks::Event;
/// fn too_large(draft: Draft) -> Event {
///     draft.with_data(format!("\"{}\"", "x".repeat(2_000_000))).event()
/// }
/// fn illegal_type(draft: Draft) -> Event {
///     draft.with_type("node..up").event()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Draft {
    position: Position,
    id: String,
    event_type: String,
    tenant_id: Option<String>,
    subject: Option<String>,
    time: String,
    data: String,
}

impl Draft {
    /// The type of all events that the kit makes, unless a check is about types.
    pub const EVENT_TYPE: &'static str = "node.checked";

    pub(super) fn new(position: Position, id: String, subject: String, canary: &str) -> Self {
        Self {
            position,
            id,
            event_type: Self::EVENT_TYPE.to_owned(),
            tenant_id: Some(format!("ten-{canary}")),
            subject: Some(subject),
            time: "2026-09-24T10:15:02.114Z".to_owned(),
            data: format!(
                r#"{{"canary":"{canary}","price":1.10,"seq":{}}}"#,
                position.seq
            ),
        }
    }

    /// With another type.
    #[must_use]
    pub fn with_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = event_type.into();
        self
    }

    /// With another tenant.
    #[must_use]
    pub fn with_tenant(mut self, tenant_id: impl Into<String>) -> Self {
        self.tenant_id = Some(tenant_id.into());
        self
    }

    /// With another subject, which for most destinations means another key.
    #[must_use]
    pub fn with_subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// With other data: a JSON text, which goes into the payload as it is.
    #[must_use]
    pub fn with_data(mut self, json: impl Into<String>) -> Self {
        self.data = json.into();
        self
    }

    pub(super) fn with_time(mut self, time: &str) -> Self {
        time.clone_into(&mut self.time);
        self
    }

    pub(super) fn without_tenant(mut self) -> Self {
        self.tenant_id = None;
        self
    }

    pub(super) fn without_subject(mut self) -> Self {
        self.subject = None;
        self
    }

    /// Where it will stand.
    pub(super) const fn position(&self) -> Position {
        self.position
    }

    /// With this text for a payload, whatever it is.
    pub(super) fn with_payload(self, payload: &'static str) -> Event {
        Event::new(self.position, self.event_type, payload)
    }

    /// Makes the event.
    #[must_use]
    pub fn event(&self) -> Event {
        let field = |name: &str, value: &Option<String>| match value {
            Some(value) => format!(r#","{name}":{}"#, serde_json::Value::from(value.as_str())),
            None => String::new(),
        };
        let payload = format!(
            r#"{{"id":"{}","type":{}{}{},"time":"{}","data":{}}}"#,
            self.id,
            serde_json::Value::from(self.event_type.as_str()),
            field("tenantId", &self.tenant_id),
            field("subject", &self.subject),
            self.time,
            self.data,
        );
        Event::new(self.position, self.event_type.clone(), payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_becomes_the_event_it_describes() {
        let draft = Draft::new(Position::new(3, 7), "evt_7".into(), "node/1".into(), "c4");
        let event = draft.event();
        assert_eq!(event.defect(), None);
        assert_eq!((event.id(), event.subject()), ("evt_7", "node/1"));
        assert_eq!(event.data(), r#"{"canary":"c4","price":1.10,"seq":7}"#);
        let odd = draft.with_subject("a\"\n").without_tenant().event();
        assert_eq!((odd.subject(), odd.tenant_id()), ("a\"\n", ""));
    }
}
