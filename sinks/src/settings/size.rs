//! A number of bytes.

use std::borrow::Cow;
use std::fmt;

use bytesize::ByteSize;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

/// A number of bytes, written as `"64MiB"`, `"1MB"` or a plain number.
///
/// ```
/// use outbox_sinks::settings::Size;
/// let size: Size = serde_json::from_str("\"64KiB\"")?;
/// assert_eq!(size, Size::bytes(65_536));
/// assert_eq!(size.as_usize(), 65_536);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Size(ByteSize);

impl Size {
    /// This many bytes.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self(ByteSize(bytes))
    }

    /// The number of bytes; the largest `usize` if it is larger than that.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0.as_u64()).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.display().iec())
    }
}

/// As an operator would write it: in the largest binary unit that leaves no fraction, or
/// as a plain number.
impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.0.as_u64();
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let whole = |(_, shift): &(&str, u32)| bytes != 0 && bytes.trailing_zeros() >= *shift;
        match units.into_iter().find(whole) {
            Some((unit, shift)) => {
                serializer.collect_str(&format_args!("{}{unit}", bytes >> shift))
            }
            None => serializer.serialize_u64(bytes),
        }
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A size such as \"64KiB\", \"4MiB\" or \"1MB\", or a plain number of bytes.",
            "examples": ["64KiB", "4MiB"],
            "type": ["string", "integer"],
            "minimum": 0,
            "pattern": r"^(\+?[0-9]+|[0-9.]+\s*([bB]|[kKmMgGtTpPeE][iI]?[bB]?))$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_shown_as_it_would_be_written_and_loses_no_byte() {
        for (bytes, written) in [
            (0, "0"),
            (1_000_000, "1000000"),
            (1024, "\"1KiB\""),
            (4 << 20, "\"4MiB\""),
            (3 << 30, "\"3GiB\""),
            ((4 << 20) + 1, "4194305"),
        ] {
            let size = Size::bytes(bytes);
            assert_eq!(serde_json::to_string(&size).unwrap(), written);
            assert_eq!(serde_json::from_str::<Size>(written).unwrap(), size);
        }
    }
}
