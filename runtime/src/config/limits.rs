//! Values that have the right type and are wrong all the same.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::document::Document;
use super::key::Key;

/// Reports a duration outside of its limits.
pub(super) fn duration(
    document: &mut Document<'_>,
    key: &Key,
    value: Duration,
    limits: RangeInclusive<Duration>,
) {
    let shown = |limit: &Duration| humantime::format_duration(*limit).to_string();
    if !limits.contains(&value) {
        let (least, most) = (shown(limits.start()), shown(limits.end()));
        document.report(key, format!("must be between {least} and {most}"));
    }
}

/// Reports a number outside of its limits.
pub(super) fn number<N: PartialOrd + fmt::Display>(
    document: &mut Document<'_>,
    key: &Key,
    value: &N,
    limits: &RangeInclusive<N>,
) {
    if !limits.contains(value) {
        let (least, most) = (limits.start(), limits.end());
        document.report(key, format!("must be between {least} and {most}"));
    }
}

/// The pattern of a name, for the schema: says what [`is_name`] says.
pub(super) const NAME: &str = "^[a-z0-9][a-z0-9_-]{0,62}$";

/// Whether a text can be the name of a sink or a worker's lease: it becomes part of
/// rows, metrics and, for some destinations, of names there.
pub(super) fn is_name(text: &str) -> bool {
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 63
        && text.starts_with(lower)
        && text.chars().all(|c| lower(c) || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_lower_case_and_short_and_the_schema_says_so() {
        let schema = serde_json::json!({ "pattern": NAME });
        let schema = jsonschema::validator_for(&schema).unwrap();
        for good in ["a", "9", "orders-v2_x", &"a".repeat(63)] {
            assert!(is_name(good) && schema.is_valid(&good.into()), "{good}");
        }
        for bad in ["", "-a", "_a", "A", "a.b", "a b", "é", &"a".repeat(64)] {
            assert!(!is_name(bad) && !schema.is_valid(&bad.into()), "{bad}");
        }
    }
}
