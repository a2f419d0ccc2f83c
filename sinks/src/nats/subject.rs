//! Which subjects may be sent to, and which patterns overlap.
//!
//! A subject stands unquoted in a protocol line, so a space or a line end in it would
//! break the line, and the client library checks only some of the rules. What is not
//! legal is refused here and never reaches a connection.

use outbox::Event;

use crate::{Refusal, Template};

/// The longest subject in bytes. A server's protocol line holds 4,096 bytes unless it
/// is configured otherwise; the rest is for the reply subject and the sizes.
const MAX_BYTES: usize = 3_840;

/// The subject of one event.
///
/// # Errors
/// `MISSING_FIELD` from the template, or `ILLEGAL_SUBJECT` with the rule.
pub(super) fn of(event: &Event, template: &Template) -> Result<String, Refusal> {
    let subject = template.render(event)?;
    match broken_rule(&subject) {
        Some(rule) => Err(Refusal::new("ILLEGAL_SUBJECT", rule)),
        None => Ok(subject),
    }
}

/// The rule that a subject breaks, if it breaks one.
pub(super) fn broken_rule(subject: &str) -> Option<&'static str> {
    let illegal = |c: char| c.is_whitespace() || c.is_control();
    if subject.is_empty() {
        Some("the subject is empty")
    } else if subject.len() > MAX_BYTES {
        Some("the subject is longer than 3840 bytes")
    } else if subject.contains(illegal) {
        Some("the subject has a space or a control character in it")
    } else if subject.contains(['*', '>']) {
        Some("the subject has a wildcard in it")
    } else if subject.split('.').any(str::is_empty) {
        Some("the subject begins or ends with a dot, or has two in a row")
    } else if subject.starts_with('$') || subject.starts_with("_INBOX.") {
        Some("the subject belongs to the server: it begins with $ or _INBOX")
    } else {
        None
    }
}

/// The subjects a template can give, as a NATS pattern: its fixed first tokens, then
/// anything.
pub(super) fn pattern(template: &Template) -> String {
    if let Some(fixed) = template.as_fixed() {
        return fixed.to_owned();
    }
    match template.literal_prefix().rsplit_once('.') {
        Some((tokens, _)) => format!("{tokens}.>"),
        None => ">".to_owned(),
    }
}

/// Whether some subject matches both patterns.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        match (one.next(), other.next()) {
            (None, None) | (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
            (None, Some(_)) | (Some(_), None) => return false,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            (Some(_), Some(_)) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::Position;
    use proptest::prelude::*;

    #[test]
    fn legal_subjects_pass() {
        for subject in [
            "a",
            "events.node.up",
            "ereignis.größe.日本",
            "a-b_c.d/e",
            "a.$b",
        ] {
            assert_eq!(broken_rule(subject), None, "{subject}");
        }
    }

    /// E2, E4.
    #[test]
    fn a_subject_that_would_break_the_protocol_line_is_refused() {
        let long = "x".repeat(MAX_BYTES + 1);
        for subject in [
            "",
            "a b",
            "a\tb",
            "a\r\nPUB x 0",
            "a\u{0}b",
            "a\u{7f}",
            "a\u{a0}b",
            "a.*",
            "a.>",
            "ev>x",
            "a..b",
            ".a",
            "a.",
            ".",
            "$JS.API.STREAM.DELETE.X",
            "_INBOX.x",
            &long,
        ] {
            assert!(broken_rule(subject).is_some(), "{subject:?}");
        }
    }

    #[test]
    fn an_illegal_subject_from_a_template_makes_the_event_undeliverable() {
        let payload = r#"{"id":"e","type":"a.b","subject":"two words"}"#;
        let event = Event::new(Position::new(1, 1), "a.b", payload);
        let refusal = of(&event, &"events.{subject}".parse().unwrap()).unwrap_err();
        assert_eq!(refusal.code(), "ILLEGAL_SUBJECT");
    }

    #[test]
    fn a_template_stands_for_its_fixed_first_tokens_and_anything_after() {
        for (template, expected) in [
            ("events.all", "events.all"),
            ("events.{type}", "events.>"),
            ("a.b.x{type}", "a.b.>"),
            ("{type}", ">"),
            ("x{type}.y", ">"),
        ] {
            assert_eq!(pattern(&template.parse().unwrap()), expected, "{template}");
        }
    }

    #[test]
    fn patterns_overlap_if_a_subject_matches_both() {
        for (one, other, expected) in [
            ("events.>", "events.node.up", true),
            ("events.>", "events", false),
            ("events.*", "events.node.up", false),
            ("*.node.*", "events.>", true),
            ("orders.>", "events.>", false),
            (">", "events.a", true),
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
            assert_eq!(overlap(other, one), expected, "{other} {one}");
        }
    }

    proptest! {
        #[test]
        fn a_subject_that_passes_is_one_word_of_filled_tokens(subject in "\\PC{0,20}|[a.>* ]{0,8}") {
            if broken_rule(&subject).is_none() {
                prop_assert_eq!(subject.split_whitespace().count(), 1);
                prop_assert!(subject.split('.').all(|token| !token.is_empty()));
            }
        }
    }
}
