//! A length of time.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A length of time, written as `"250ms"`, `"30s"`, `"5m"` or `"1h 30m"`: a [`Duration`]
/// that reads and describes itself as an operator writes it.
///
/// ```
/// use std::time::Duration;
/// use outbox_sinks::settings::Period;
/// let timeout: Period = serde_json::from_str("\"1m 30s\"")?;
/// assert_eq!(*timeout, Duration::from_secs(90));
/// assert_eq!(timeout, Period::from_secs(90));
/// assert!(serde_json::from_str::<Period>("90").is_err(), "of which unit?");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Period(#[serde(with = "humantime_serde")] Duration);

impl Period {
    /// No time at all.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// So many seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// So many milliseconds.
    #[must_use]
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }
}

impl Deref for Period {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl From<Duration> for Period {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        period.0
    }
}

impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let units = "nanos|nsec|ns|usec|us|µs|millis|msec|ms|seconds?|secs?|s|minutes?|mins?|m\
                     |hours?|hrs?|h|days?|d|weeks?|wks?|w|months?|M|years?|yrs?|y";
        let pattern = format!(r"^(0|\s*([0-9][0-9\s]*(\.[0-9\s]+)?({units})\s*)+)$");
        json_schema!({
            "description": "A length of time such as \"250ms\", \"30s\", \"5m\" or \"1h 30m\".",
            "examples": ["250ms", "30s", "5m"],
            "type": "string",
            "pattern": pattern,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_shown_as_it_would_be_written() {
        for (period, written) in [
            (Period::ZERO, "\"0s\""),
            (Period::from_millis(250), "\"250ms\""),
            (Period::from_secs(120), "\"2m\""),
            (Period::from_secs(5_400), "\"1h 30m\""),
        ] {
            assert_eq!(serde_json::to_string(&period).unwrap(), written);
            assert_eq!(serde_json::from_str::<Period>(written).unwrap(), period);
        }
    }
}
