//! Which partition an event belongs to, as a Hive-style path: `type=node.up/dt=2026-09-24/`.
//!
//! Any value makes exactly one path segment, from which it can be read back. An
//! event that lacks the value, or whose time is no sensible time (F8), goes to Hive's
//! default partition: the sink lives and the event is not lost.

use std::fmt::Write;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use outbox::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What Hive, Spark, Trino and Athena read as "no value".
pub(super) const DEFAULT_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The years a publisher may mean. A time outside is a broken clock or a sentinel,
/// and would only scatter partitions.
const SENSIBLE_YEARS: std::ops::RangeInclusive<i16> = 1970..=2999;

/// One level of partitions, by a field of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum PartitionBy {
    /// `type=node.up`
    Type,
    /// `area=node`
    Area,
    /// `tenant_id=ten_1` (in lower case, since catalogues fold the case of columns)
    TenantId,
    /// `dt=2026-09-24`: the day of the event's time, in UTC.
    Date,
    /// `hour=10`: the hour of the event's time, in UTC.
    Hour,
}

/// Appends the partition's path for an event, with a `/` after each segment.
pub(super) fn render(levels: &[PartitionBy], event: &Event, out: &mut String) {
    for level in levels {
        let (column, value) = match level {
            PartitionBy::Type => ("type", escape(event.event_type())),
            PartitionBy::Area => ("area", escape(event.area())),
            PartitionBy::TenantId => ("tenant_id", escape(event.tenant_id())),
            PartitionBy::Date => ("dt", date(event.time())),
            PartitionBy::Hour => ("hour", hour(event.time())),
        };
        write!(out, "{column}={value}/").expect("a String takes all");
    }
}

fn date(time: &str) -> String {
    utc(time).map_or_else(default_partition, |utc| utc.date().to_string())
}

fn hour(time: &str) -> String {
    utc(time).map_or_else(default_partition, |utc| format!("{:02}", utc.hour()))
}

fn default_partition() -> String {
    DEFAULT_PARTITION.to_owned()
}

fn utc(time: &str) -> Option<DateTime> {
    let timestamp: Timestamp = time.parse().ok()?;
    let utc = Offset::UTC.to_datetime(timestamp);
    SENSIBLE_YEARS.contains(&utc.year()).then_some(utc)
}

/// Percent-encodes what Hive encodes in a partition's value, and every other
/// control character, which the XML of a listing could not carry.
fn escape(value: &str) -> String {
    if value.is_empty() {
        return default_partition();
    }
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    if value == DEFAULT_PARTITION {
        // The text itself, which must not be mistaken for "no value".
        out.push_str("%5F");
        rest = value.strip_prefix('_').unwrap_or(value);
    }
    for c in rest.chars() {
        if must_be_escaped(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                write!(out, "%{byte:02X}").expect("a String takes all");
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn must_be_escaped(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{fffe}' | '\u{ffff}')
        || matches!(
            c,
            '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '{' | '[' | ']' | '^'
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::Position;
    use proptest::prelude::*;

    fn event(time: &str) -> Event {
        let payload = serde_json::json!({
            "id": "evt_1", "type": "node.command.queued", "tenantId": "t/1", "time": time,
        });
        Event::new(
            Position::new(1, 1),
            "node.command.queued",
            payload.to_string(),
        )
    }

    fn rendered(levels: &[PartitionBy], time: &str) -> String {
        let mut out = String::new();
        render(levels, &event(time), &mut out);
        out
    }

    /// What a reader of the partition does.
    fn unescape(segment: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = segment.bytes();
        while let Some(byte) = rest.next() {
            if byte == b'%' {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
            } else {
                bytes.push(byte);
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn each_field_makes_one_segment_in_the_configured_order() {
        use PartitionBy::*;
        assert_eq!(
            rendered(
                &[Type, Area, TenantId, Date, Hour],
                "2026-09-24T23:15:02.114-02:00"
            ),
            "type=node.command.queued/area=node/tenant_id=t%2F1/dt=2026-09-25/hour=01/"
        );
        assert_eq!(rendered(&[], "2026-09-24T10:15:02Z"), "");
    }

    #[test]
    fn a_time_that_is_none_goes_to_the_default_partition() {
        for time in [
            "",
            "n/a",
            "infinity",
            "292277026596-12-04T15:30:08Z",
            "-009999-01-02T00:00:00Z",
            "9999-12-31T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-09-24",
            "2026-02-30T00:00:00Z",
            "1790000000",
        ] {
            assert_eq!(
                rendered(&[PartitionBy::Date, PartitionBy::Hour], time),
                "dt=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__/",
                "{time}"
            );
        }
    }

    #[test]
    fn what_hive_leaves_alone_is_left_alone() {
        assert_eq!(escape("a b+c&d~ü🙂."), "a b+c&d~ü🙂.");
        assert_eq!(escape("50%/a=b:c"), "50%25%2Fa%3Db%3Ac");
    }

    #[test]
    fn a_value_is_never_mistaken_for_no_value() {
        assert_eq!(escape(""), DEFAULT_PARTITION);
        assert_eq!(escape(DEFAULT_PARTITION), "%5F_HIVE_DEFAULT_PARTITION__");
        assert_eq!(unescape(&escape(DEFAULT_PARTITION)), DEFAULT_PARTITION);
    }

    proptest! {
        #[test]
        fn any_value_is_one_legal_segment_and_reads_back(
            value in prop_oneof![any::<String>(), "[%/=.\\x00-\\x20ü]{1,20}"]
        ) {
            let segment = escape(&value);
            prop_assert!(!segment.is_empty());
            prop_assert!(!segment.contains('/') && !segment.chars().any(char::is_control));
            if !value.is_empty() {
                prop_assert_eq!(unescape(&segment), value);
            }
        }

        #[test]
        fn no_time_makes_it_panic(time in any::<String>()) {
            prop_assert!(rendered(&[PartitionBy::Date], &time).starts_with("dt="));
        }
    }
}
