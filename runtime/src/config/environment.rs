//! The environment variables that a configuration may name.
//!
//! This is the one place of the project that reads them, so that a test can give
//! its own and nothing else depends on what happens to be set.

use std::collections::BTreeMap;
use std::fmt;

/// Where `${NAME}` is looked up.
pub struct Environment(Source);

enum Source {
    Process,
    Fixed(BTreeMap<String, String>),
}

impl Environment {
    /// The variables of this process.
    #[must_use]
    pub const fn process() -> Self {
        Self(Source::Process)
    }

    /// These variables and no others.
    #[must_use]
    pub fn fixed<const N: usize>(variables: [(&str, &str); N]) -> Self {
        let owned = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(Source::Fixed(owned.into()))
    }

    /// A variable's value, or why there is none.
    ///
    /// # Errors
    /// If it is not set, or holds bytes that are not UTF-8.
    pub fn get(&self, name: &str) -> Result<String, Absent> {
        match &self.0 {
            Source::Fixed(variables) => variables.get(name).cloned().ok_or(Absent::NotSet),
            Source::Process => {
                #[expect(clippy::disallowed_methods, reason = "the one place that may")]
                let value = std::env::var(name);
                value.map_err(|error| match error {
                    std::env::VarError::NotPresent => Absent::NotSet,
                    std::env::VarError::NotUnicode(_) => Absent::NotText,
                })
            }
        }
    }
}

/// Values of the environment are secrets more often than not: none is shown.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Source::Process => "Environment(process)",
            Source::Fixed(_) => "Environment(fixed)",
        })
    }
}

/// Why a variable has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It is not set.
    NotSet,
    /// It is set to bytes that are not UTF-8.
    NotText,
}
