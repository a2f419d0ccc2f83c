//! The dotted path of a key, from the file's top: `sinks.orders.batch.max_events`.

use std::fmt;

/// A path of keys; empty for the file itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(Vec<String>);

impl Key {
    /// The path of these keys.
    pub(super) fn of<const N: usize>(parts: [&str; N]) -> Self {
        Self(parts.map(str::to_owned).into())
    }

    /// The path one key further down.
    pub(super) fn child(&self, part: &str) -> Self {
        let mut parts = self.0.clone();
        parts.push(part.to_owned());
        Self(parts)
    }

    /// The path of a dotted key below this one, as a sink's kind names it.
    pub(super) fn below(&self, dotted: &str) -> Self {
        let below = dotted.split('.').filter(|part| !part.is_empty());
        below.fold(self.clone(), |key, part| key.child(part))
    }

    /// The keys from the top.
    pub(super) fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The path of the table that holds the key, and the key's own name.
    pub(super) fn split_last(&self) -> Option<(&[String], &str)> {
        let (last, parents) = self.0.split_last()?;
        Some((parents, last))
    }

    /// Whether this key is the other one or lies below it.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        for (i, part) in self.0.iter().enumerate() {
            let dot = if i == 0 { "" } else { "." };
            if part.is_empty() || !part.chars().all(bare) {
                write!(f, "{dot}{part:?}")?;
            } else {
                write!(f, "{dot}{part}")?;
            }
        }
        Ok(())
    }
}
