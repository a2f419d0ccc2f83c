//! A kind of sink: its name in the configuration and how its settings make a
//! connector.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::Connector;

/// A kind of sink, to be registered with the runtime. Its settings are the table
/// `[sinks.<name>.<KIND>]` of `sinks.toml`, read strictly into [`SinkKind::Settings`]
/// (give that `#[serde(deny_unknown_fields)]`: unknown keys are then refused with
/// their line and the nearest known key).
pub trait SinkKind: Send + Sync + 'static {
    /// The table's name, for example `kafka`.
    const NAME: &'static str;

    /// The kind's own settings.
    type Settings: DeserializeOwned;

    /// Makes a connector of checked settings. Connects to nothing.
    ///
    /// # Errors
    /// Every setting that serde can't judge and that is wrong, all at once.
    fn connector(name: &str, settings: Self::Settings) -> Result<Box<dyn Connector>, Problems>;
}

/// What is wrong with a sink's settings, key by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

/// One wrong setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key within the kind's table, dotted if it is nested: `sasl.password_file`.
    pub key: String,
    /// What is wrong and what to write instead. Holds no secret.
    pub message: String,
}

impl Problems {
    /// A single problem.
    pub fn one(key: impl Into<String>, message: impl Into<String>) -> Self {
        let mut problems = Self::default();
        problems.add(key, message);
        problems
    }

    /// Adds a problem.
    pub fn add(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem {
            key: key.into(),
            message: message.into(),
        });
    }

    /// Takes the value out of a result, or notes its error under `key`.
    pub fn note<T, E: fmt::Display>(&mut self, key: &str, result: Result<T, E>) -> Option<T> {
        result
            .map_err(|error| self.add(key, error.to_string()))
            .ok()
    }

    /// `Ok` if there is no problem.
    ///
    /// # Errors
    /// The problems themselves.
    pub fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }

    /// The problems, in the order they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Problem { key, message }) in self.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{key}: {message}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
