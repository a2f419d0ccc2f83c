//! A text that must not be seen.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// A text that must not be seen: it prints as `[hidden]`, and is wiped from
/// memory when dropped.
///
/// ```
/// use outbox_sinks::settings::Secret;
/// let token = Secret::new("hush");
/// assert_eq!(format!("{token:?}"), "[hidden]");
/// assert_eq!(token.expose(), "hush");
/// ```
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(SecretString);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The text itself, for the client library that needs it and nobody else.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// A secret given in the configuration or in a file: at most one of the two.
    /// The file's last line end does not count.
    ///
    /// # Errors
    /// A sentence about `key` if both are given, or the file can't be read.
    pub fn resolve(
        key: &str,
        inline: Option<Self>,
        file: Option<&Path>,
    ) -> Result<Option<Self>, String> {
        match (inline, file) {
            (Some(_), Some(_)) => Err(format!("give `{key}` or `{key}_file`, not both")),
            (inline, None) => Ok(inline),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("read {}: {error}", path.display()))?;
                Ok(Some(Self::new(text.trim_end_matches(['\r', '\n']))))
            }
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A secret: rather `${NAME}` from the environment than the text itself.",
            "type": "string",
            "format": "password",
            "writeOnly": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new("hush")), "[hidden]");
    }

    #[test]
    fn a_secret_comes_from_one_place_only() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "from file\n").unwrap();
        let resolve = Secret::resolve;
        let found = resolve("password", None, Some(file.path()))
            .unwrap()
            .unwrap();
        assert_eq!(found.expose(), "from file");
        let both = resolve("password", Some(Secret::new("x")), Some(file.path())).unwrap_err();
        assert_eq!(both, "give `password` or `password_file`, not both");
        assert!(resolve("password", None, None).unwrap().is_none());
        let missing = resolve("password", None, Some(Path::new("/nonexistent/x"))).unwrap_err();
        assert!(missing.contains("/nonexistent/x"), "{missing}");
    }
}
