//! Which events a consumer takes: by type and by tenant.
//!
//! The same filter is judged in two places, in SQL and in memory, and both must
//! agree: a type pattern looks at the row's topic, a tenant at the payload.

use std::fmt;
use std::str::FromStr;

use crate::Event;

/// The events a consumer takes. Empty lists take everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// An event's type must match one of these.
    pub types: Vec<TypePattern>,
    /// An event's tenant must be one of these.
    pub tenants: Vec<String>,
}

impl Filter {
    /// Whether every event passes.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.tenants.is_empty() && self.types.iter().all(TypePattern::is_any)
    }

    /// Whether this event passes.
    #[must_use]
    pub fn takes(&self, event: &Event) -> bool {
        let of_type = || {
            self.types
                .iter()
                .any(|pattern| pattern.matches(event.topic()))
        };
        let of_tenant = || {
            self.tenants
                .iter()
                .any(|tenant| tenant == event.tenant_id())
        };
        (self.types.is_empty() || of_type()) && (self.tenants.is_empty() || of_tenant())
    }
}

/// A pattern for event types, in which `*` stands for any run of characters:
/// `node.*`, `*.failed`, `order.paid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePattern(String);

impl TypePattern {
    /// Whether the pattern is `*`, which matches everything.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.0 == "*"
    }

    /// Whether a type matches.
    ///
    /// ```
    /// use outbox::TypePattern;
    /// let pattern: TypePattern = "node.*".parse()?;
    /// assert!(pattern.matches("node.command.queued"));
    /// assert!(!pattern.matches("nodes.joined"));
    /// # Ok::<(), outbox::InvalidPattern>(())
    /// ```
    #[must_use]
    pub fn matches(&self, event_type: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = event_type.strip_prefix(first) else {
            return false;
        };
        let Some(last) = pieces.next_back() else {
            return rest.is_empty();
        };
        for piece in pieces {
            match rest.split_once(piece) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }

    /// The pattern for SQL's `like`, with the backslash as escape.
    #[must_use]
    pub fn to_like(&self) -> String {
        let mut like = String::with_capacity(self.0.len() + 4);
        for character in self.0.chars() {
            match character {
                '*' => like.push('%'),
                '%' | '_' | '\\' => like.extend(['\\', character]),
                other => like.push(other),
            }
        }
        like
    }
}

impl fmt::Display for TypePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pattern that no event type can match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPattern(String);

impl fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` matches no event type: write a type such as order.paid, a family such as order.*, or *",
            self.0
        )
    }
}

impl std::error::Error for InvalidPattern {}

impl FromStr for TypePattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A type always has a dot, so a pattern without star or dot is a mistake.
        let possible = text.contains(['*', '.']) && !text.contains(char::is_whitespace);
        if possible {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidPattern(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> TypePattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (text, yes, no) in [
            ("*", "a.b", None),
            ("node.*", "node.up", Some("nodes.up")),
            ("*.failed", "stage.failed", Some("stage.failed.again")),
            ("a.*.z", "a.b.c.z", Some("a.z")),
            ("order.paid", "order.paid", Some("order.paid.twice")),
            ("a*b*", "aXbY.", Some("aX.Y")),
        ] {
            assert!(pattern(text).matches(yes), "{text} takes {yes}");
            assert!(
                no.is_none_or(|no| !pattern(text).matches(no)),
                "{text} does not take {no:?}"
            );
        }
    }

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused() {
        for text in ["", "node", "node up.*"] {
            assert!(text.parse::<TypePattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn like_takes_only_the_star_for_a_wildcard() {
        assert_eq!(pattern(r"a_b.50%\*").to_like(), r"a\_b.50\%\\%");
    }

    proptest! {
        #[test]
        fn matching_agrees_with_a_search_by_trial(pattern in "[ab.*]{1,6}", text in "[ab.]{0,8}") {
            fn trial(pattern: &[u8], text: &[u8]) -> bool {
                match (pattern.split_first(), text.split_first()) {
                    (None, None) => true,
                    (Some((b'*', rest)), _) => {
                        trial(rest, text) || (!text.is_empty() && trial(pattern, &text[1..]))
                    }
                    (Some((p, rest)), Some((t, after))) => p == t && trial(rest, after),
                    _ => false,
                }
            }
            let expected = trial(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(TypePattern(pattern).matches(&text), expected);
        }
    }
}
