//! A kind of sink: its name in the configuration and how its settings make a
//! connector.

use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::Connector;

/// A kind of sink, to be registered with the runtime. Its settings are the table
/// `[sinks.<name>.<KIND>]` of `sinks.toml`, read strictly into [`SinkKind::Settings`]:
/// an unknown key is refused with its line and the nearest known key.
///
/// The same type describes the table for editors (`sinks config schema`), where doc
/// comments become descriptions. `use outbox_sinks::schemars` is all that the derive
/// needs; there is no version to choose and no attribute to write. For values there is
/// [`settings`](crate::settings).
///
/// ```
/// use outbox_sinks::schemars::{self, JsonSchema};
/// use outbox_sinks::settings::{Period, Secret};
/// use outbox_sinks::{Connector, Delivery, Problems, SinkKind, from_fn};
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Pager {
///     /// The number that is called.
///     number: String,
///     /// What the provider knows us by.
///     token: Secret,
///     /// How long it may ring.
///     #[serde(default = "half_a_minute")]
///     timeout: Period,
/// }
///
/// fn half_a_minute() -> Period {
///     Period::from_secs(30)
/// }
///
/// impl SinkKind for Pager {
///     const NAME: &'static str = "pager";
///     type Settings = Self;
///
///     fn connector(_sink: &str, pager: Self) -> Result<Box<dyn Connector>, Problems> {
///         if !pager.number.starts_with('+') {
///             return Err(Problems::one("number", "begin with + and the country's code"));
///         }
///         Ok(Box::new(from_fn(|batch| async move {
///             println!("{} events", batch.len());
///             Ok(Delivery::All)
///         })))
///     }
/// }
///
/// let settings = serde_json::from_str(r#"{ "number": "112", "token": "hush" }"#)?;
/// let problems = Pager::connector("night", settings).unwrap_err();
/// assert_eq!(problems.to_string(), "number: begin with + and the country's code");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub trait SinkKind: Send + Sync + 'static {
    /// The table's name, for example `kafka`.
    const NAME: &'static str;

    /// The kind's own settings.
    type Settings: DeserializeOwned + JsonSchema;

    /// Makes a connector of checked settings. Connects to nothing.
    ///
    /// # Errors
    /// Every setting that serde can't judge and that is wrong, all at once.
    fn connector(name: &str, settings: Self::Settings) -> Result<Box<dyn Connector>, Problems>;
}

/// What is wrong with a sink's settings, key by key.
///
/// ```
/// use outbox_sinks::Problems;
/// fn check(port: &str, host: &str) -> Result<u16, Problems> {
///     let mut problems = Problems::default();
///     let port = problems.note("port", port.parse::<u16>());
///     if host.is_empty() {
///         problems.add("host", "name the server");
///     }
///     problems.into_result()?;
///     Ok(port.unwrap_or_default())
/// }
/// assert_eq!(check("80", "here"), Ok(80));
/// let all = check("http", "").unwrap_err().to_string();
/// assert_eq!(all, "port: invalid digit found in string; host: name the server");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

/// One wrong setting.
///
/// ```
/// use outbox_sinks::Problems;
/// let problems = Problems::one("tls.ca_file", "no such file");
/// let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
/// assert_eq!(keys, ["tls.ca_file"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
