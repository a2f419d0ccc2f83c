//! Routing templates such as `events.{area}`, parsed when the configuration is
//! loaded and rendered for each event.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use outbox::Event;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use crate::Refusal;

/// A text with fields of the event in it: `events.{area}`, `{subject}`.
///
/// The fields are `id`, `type`, `area`, `tenantId`, `subject`, `time`, `sequence`
/// (`txid.seq`), `txid` and `seq`. An event that lacks a field is undeliverable,
/// unless the template says what to use instead: `{tenantId:-shared}`.
/// `{{` and `}}` are the braces themselves.
///
/// ```
/// use outbox::{Event, Position};
/// use outbox_sinks::Template;
/// let event = Event::new(Position::new(1, 2), "node.up", r#"{"id":"e","type":"node.up"}"#);
/// let topic: Template = "events.{area}.{tenantId:-shared}".parse()?;
/// assert_eq!(topic.render(&event).unwrap(), "events.node.shared");
/// assert!("events.{aera}".parse::<Template>().is_err());
/// # Ok::<(), outbox_sinks::InvalidTemplate>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field {
        field: Field,
        otherwise: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Id,
    Type,
    Area,
    TenantId,
    Subject,
    Time,
    Sequence,
    Txid,
    Seq,
}

const FIELDS: [(&str, Field); 9] = [
    ("id", Field::Id),
    ("type", Field::Type),
    ("area", Field::Area),
    ("tenantId", Field::TenantId),
    ("subject", Field::Subject),
    ("time", Field::Time),
    ("sequence", Field::Sequence),
    ("txid", Field::Txid),
    ("seq", Field::Seq),
];

impl Template {
    /// The text, if no field is in it.
    #[must_use]
    pub fn as_fixed(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The text before the first field: what every rendering begins with.
    #[must_use]
    pub fn literal_prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text(text)) => text,
            Some(Part::Field { .. }) | None => "",
        }
    }

    /// The text for one event.
    ///
    /// # Errors
    /// `MISSING_FIELD` if the event lacks a field and the template has nothing instead.
    pub fn render(&self, event: &Event) -> Result<String, Refusal> {
        let mut out = String::with_capacity(64);
        self.render_to(event, &mut out)?;
        Ok(out)
    }

    /// Appends the text for one event to `out`.
    ///
    /// # Errors
    /// As [`Template::render`]; `out` then holds a part of the text.
    pub fn render_to(&self, event: &Event, out: &mut String) -> Result<(), Refusal> {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Field { field, otherwise } => {
                    let before = out.len();
                    field.render_to(event, out);
                    if out.len() == before {
                        out.push_str(otherwise.as_deref().ok_or_else(|| field.missing())?);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Field {
    fn render_to(self, event: &Event, out: &mut String) {
        use fmt::Write;
        let position = event.position();
        let text = match self {
            Self::Id => event.id(),
            Self::Type => event.event_type(),
            Self::Area => event.area(),
            Self::TenantId => event.tenant_id(),
            Self::Subject => event.subject(),
            Self::Time => event.time(),
            Self::Sequence => return write!(out, "{position}").expect("a String takes all"),
            Self::Txid => return write!(out, "{}", position.txid).expect("a String takes all"),
            Self::Seq => return write!(out, "{}", position.seq).expect("a String takes all"),
        };
        out.push_str(text);
    }

    fn name(self) -> &'static str {
        let known = FIELDS.iter().find(|(_, field)| *field == self);
        known.map_or("?", |(name, _)| name)
    }

    fn missing(self) -> Refusal {
        let name = self.name();
        Refusal::new(
            "MISSING_FIELD",
            format!("the template needs `{name}`, the event has none"),
        )
    }
}

/// As it is written.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}"))?,
                Part::Field { field, otherwise } => {
                    let name = field.name();
                    match otherwise {
                        Some(otherwise) => write!(f, "{{{name}:-{otherwise}}}")?,
                        None => write!(f, "{{{name}}}")?,
                    }
                }
            }
        }
        Ok(())
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Template {
    fn schema_name() -> Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = FIELDS.map(|(name, _)| name);
        let (known, choice) = (names.join(", "), names.join("|"));
        let pattern = format!(r"^([^{{}}]|\{{\{{|\}}\}}|\{{({choice})(:-[^}}]*)?\}})*$");
        json_schema!({
            "description": format!(
                "A text with fields of the event in it, such as \"events.{{area}}\". The fields are \
                 {known}; {{tenantId:-shared}} says what to use when the event lacks one."
            ),
            "type": "string",
            "pattern": pattern,
        })
    }
}

/// A template that can't be used, and why.
///
/// ```
/// use outbox_sinks::Template;
/// let error = "events.{aera}".parse::<Template>().unwrap_err();
/// assert!(error.to_string().starts_with("`{aera}` is no field of an event"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTemplate(String);

impl fmt::Display for InvalidTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidTemplate {}

impl TryFrom<String> for Template {
    type Error = InvalidTemplate;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for Template {
    type Err = InvalidTemplate;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = Vec::new();
        let mut fixed = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            fixed.push_str(before);
            if let Some(after) = from.strip_prefix("{{") {
                fixed.push('{');
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                fixed.push('}');
                rest = after;
            } else if let Some((inner, after)) =
                from.strip_prefix('{').and_then(|from| from.split_once('}'))
            {
                if !fixed.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut fixed)));
                }
                parts.push(field(inner)?);
                rest = after;
            } else {
                return Err(InvalidTemplate(format!(
                    "`{text}` has a brace without its partner: write {{{{ or }}}} for the brace itself"
                )));
            }
        }
        fixed.push_str(rest);
        if !fixed.is_empty() {
            parts.push(Part::Text(fixed));
        }
        Ok(Self { parts })
    }
}

fn field(inner: &str) -> Result<Part, InvalidTemplate> {
    let (name, otherwise) = match inner.split_once(":-") {
        Some((name, otherwise)) => (name, Some(otherwise.to_owned())),
        None => (inner, None),
    };
    match FIELDS.iter().find(|(known, _)| *known == name) {
        Some((_, field)) => Ok(Part::Field {
            field: *field,
            otherwise,
        }),
        None => {
            let known: Vec<_> = FIELDS.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            Err(InvalidTemplate(format!(
                "`{{{name}}}` is no field of an event; there are: {known}"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::Position;
    use proptest::prelude::*;

    fn event() -> Event {
        Event::new(
            Position::new(5, 6),
            "node.command.queued",
            r#"{"id":"evt_1","type":"node.command.queued","subject":"node/7"}"#,
        )
    }

    #[test]
    fn fields_are_filled_in() {
        let template: Template = "{area}|{type}|{subject}|{sequence}|{txid}|{seq}"
            .parse()
            .unwrap();
        assert_eq!(
            template.render(&event()).unwrap(),
            "node|node.command.queued|node/7|5.6|5|6"
        );
    }

    #[test]
    fn a_missing_field_is_refused_unless_the_template_has_something_instead() {
        let refusal = "{tenantId}"
            .parse::<Template>()
            .unwrap()
            .render(&event())
            .unwrap_err();
        assert_eq!(refusal.code(), "MISSING_FIELD");
        let instead = "{tenantId:-none}".parse::<Template>().unwrap();
        assert_eq!(instead.render(&event()).unwrap(), "none");
    }

    #[test]
    fn an_unknown_field_or_a_lone_brace_is_an_error_when_parsed() {
        for text in ["{aera}", "{", "}", "a{b", "{}", "a}b"] {
            assert!(text.parse::<Template>().is_err(), "{text}");
        }
        assert_eq!("{{a}}".parse::<Template>().unwrap().as_fixed(), Some("{a}"));
    }

    proptest! {
        #[test]
        fn a_text_without_braces_renders_as_itself(text in "[^{}]{0,40}") {
            let template: Template = text.parse().unwrap();
            prop_assert_eq!(template.render(&event()).unwrap(), text);
        }

        #[test]
        fn a_template_shows_itself_as_it_is_written(
            text in "([a-z.]|\\{\\{|\\}\\}|\\{(id|seq|tenantId:-x?\\{?)\\}){0,10}",
        ) {
            let template: Template = text.parse().unwrap();
            prop_assert_eq!(template.to_string(), text);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
            let _outcome = text.parse::<Template>();
        }
    }
}
