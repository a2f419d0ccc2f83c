//! What one check comes to: nothing, or why it stopped.

use super::Rule;

/// The end of a check, or of a part of one.
pub(super) type Finding<T = ()> = Result<T, Stop>;

/// Why a check stopped before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// A rule was broken: the check's own, unless another one is named.
    Broken { rule: Option<Rule>, seen: String },
    /// It cannot be checked here.
    NotApplicable(String),
}

impl Stop {
    /// This rule was broken.
    pub(super) fn broken(rule: Rule, seen: impl Into<String>) -> Self {
        Self::Broken {
            rule: Some(rule),
            seen: seen.into(),
        }
    }

    /// The check's own rule was broken.
    pub(super) fn own(seen: impl Into<String>) -> Self {
        Self::Broken {
            rule: None,
            seen: seen.into(),
        }
    }

    /// There is nothing to check, and this is why.
    pub(super) fn not_applicable(why: impl Into<String>) -> Self {
        Self::NotApplicable(why.into())
    }
}
