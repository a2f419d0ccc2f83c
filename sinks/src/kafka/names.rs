//! Which topic names Kafka takes.
//!
//! An illegal name is found here, before anything is sent: librdkafka would show
//! some of them as a missing topic, and others as an outage.

use crate::Refusal;

/// The longest topic name, in characters.
const MAX_LENGTH: usize = 249;

/// Checks a topic name against the broker's rules.
///
/// # Errors
/// `ILLEGAL_TOPIC` with the rule that is broken. The name itself is not quoted: it
/// may be made of an event's fields.
pub(super) fn check_topic(name: &str) -> Result<(), Refusal> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let reason = if name.is_empty() {
        "the topic's name is empty".to_owned()
    } else if name == "." || name == ".." {
        "a topic can't be named `.` or `..`".to_owned()
    } else if name.len() > MAX_LENGTH {
        let length = name.len();
        format!("the topic's name has {length} bytes; Kafka takes at most {MAX_LENGTH}")
    } else if let Some(at) = name.bytes().position(|byte| !legal(byte)) {
        format!(
            "the topic's name has a character at byte {at} that Kafka does not take; legal are a-z, A-Z, 0-9, `.`, `_` and `-`"
        )
    } else {
        return Ok(());
    };
    Err(Refusal::new("ILLEGAL_TOPIC", reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_kafka_refuses_are_refused_with_the_rule() {
        let long = "a".repeat(250);
        for (name, rule) in [
            ("", "empty"),
            (".", "`.` or `..`"),
            ("..", "`.` or `..`"),
            ("abc!@#$", "at byte 3"),
            (" abc", "at byte 0"),
            ("a\0b", "at byte 1"),
            ("größe", "at byte 2"),
            (long.as_str(), "at most 249"),
        ] {
            let refusal = check_topic(name).unwrap_err();
            assert_eq!(refusal.code(), "ILLEGAL_TOPIC");
            assert!(refusal.reason().contains(rule), "{name}: {refusal}");
        }
    }

    proptest! {
        #[test]
        fn names_of_legal_characters_are_legal(name in "[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,248}") {
            prop_assert!(check_topic(&name).is_ok());
        }
    }
}
