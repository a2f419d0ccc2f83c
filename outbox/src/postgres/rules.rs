//! The rules that an event must keep, judged before anything is sent.
//!
//! The same rules, in the same words and the same order, are in the server's
//! `outbox_payload`, which has the last word: it alone knows how long the stored
//! JSON is. What is refused here costs no round trip.

use serde_json::value::RawValue;

use super::publish::{NewEvent, PublishError};

/// The longest payload in bytes, as written and as stored.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 65_536;

const NO_NUL: &str = r"must not contain \u0000";

/// Refuses an event that breaks a rule.
pub(crate) fn check(event: &NewEvent) -> Result<(), PublishError> {
    let NewEvent {
        event_type,
        tenant_id,
        subject,
        data,
    } = event;
    if event_type.split('.').count() < 2 || event_type.split('.').any(str::is_empty) {
        let rule = "must be area.name, with at least one dot and no empty part";
        return Err(PublishError::invalid("type", rule));
    }
    at_most("type", event_type, 128, "must have at most 128 characters")?;
    at_most("tenantId", tenant_id, 128, "must have 1 to 128 characters")?;
    at_most("subject", subject, 512, "must have 1 to 512 characters")?;
    if data.len() > MAX_PAYLOAD_BYTES {
        let rule = "must have at most 65536 bytes";
        return Err(PublishError::invalid("payload", rule));
    }
    if serde_json::from_str::<&RawValue>(data).is_err() {
        let rule = "must be JSON that Postgres can store";
        return Err(PublishError::invalid("data", rule));
    }
    if escapes_nul(data) {
        return Err(PublishError::invalid("data", NO_NUL));
    }
    Ok(())
}

/// 1 to `most` characters, and none that no Postgres text can hold.
fn at_most(
    field: &'static str,
    text: &str,
    most: usize,
    rule: &'static str,
) -> Result<(), PublishError> {
    if text.is_empty() || text.chars().nth(most).is_some() {
        return Err(PublishError::invalid(field, rule));
    }
    if text.contains('\0') {
        return Err(PublishError::invalid(field, NO_NUL));
    }
    Ok(())
}

/// Whether valid JSON has an escaped NUL in one of its strings. A backslash
/// that is itself escaped (`\\u0000`) begins none.
fn escapes_nul(json: &str) -> bool {
    let mut rest = json;
    while let Some((_, after)) = rest.split_once('\\') {
        if after.starts_with("u0000") {
            return true;
        }
        rest = after.strip_prefix('\\').unwrap_or(after);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(event: &NewEvent) -> String {
        check(event).unwrap_err().to_string()
    }

    fn event() -> NewEvent {
        NewEvent::new("node.up", "ten_1", "node/7")
    }

    #[test]
    fn an_event_that_keeps_the_rules_passes() {
        check(&event().raw_data(r#"{"n":1.10,"s":"\\u0000"}"#)).unwrap();
        check(&NewEvent::new(format!("a.{}", "é".repeat(126)), "t", "s")).unwrap();
    }

    #[test]
    fn each_broken_rule_is_named_with_its_field() {
        for bad in ["", "node", ".up", "node.", "a..b", "."] {
            let error = refused(&NewEvent::new(bad, "t", "s"));
            assert!(
                error.starts_with("INVALID_INPUT: type must be area.name"),
                "{bad}: {error}"
            );
        }
        let long = |n| "é".repeat(n);
        for (event, field) in [
            (
                NewEvent::new(format!("a.{}", long(127)), "t", "s"),
                "type must have at most 128",
            ),
            (
                NewEvent::new("a.b\0", "t", "s"),
                r"type must not contain \u0000",
            ),
            (NewEvent::new("a.b", "", "s"), "tenantId must have 1 to 128"),
            (
                NewEvent::new("a.b", long(129), "s"),
                "tenantId must have 1 to 128",
            ),
            (NewEvent::new("a.b", "t", ""), "subject must have 1 to 512"),
            (
                NewEvent::new("a.b", "t", long(513)),
                "subject must have 1 to 512",
            ),
            (event().raw_data("{"), "data must be JSON"),
            (event().raw_data(r#"1,"id":2"#), "data must be JSON"),
            (
                event().raw_data(r#""\\\u0000""#),
                r"data must not contain \u0000",
            ),
            (
                event().raw_data("9".repeat(65_537)),
                "payload must have at most 65536",
            ),
        ] {
            let error = refused(&event);
            assert!(
                error.starts_with(&format!("INVALID_INPUT: {field}")),
                "{error}"
            );
        }
    }
}
