//! Values that settings are made of: secrets, sizes, certificates. Durations are plain
//! [`std::time::Duration`] with `#[serde(with = "humantime_serde")]`.

use std::fmt;
use std::path::Path;

use bytesize::ByteSize;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// A text that must not be seen: it prints as `[hidden]`, and is wiped from
/// memory when dropped.
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

/// A number of bytes, written as `"64MiB"`, `"1MB"` or a plain number.
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

/// Notes what is wrong with the PEM files of a `tls` table: one that can't be read, a
/// certificate without its key, a key without its certificate.
#[cfg(any(feature = "kafka", feature = "nats"))]
pub(crate) fn check_pem_files(
    ca_file: Option<&Path>,
    cert_file: Option<&Path>,
    key_file: Option<&Path>,
    problems: &mut crate::Problems,
) {
    for (key, file) in [
        ("tls.ca_file", ca_file),
        ("tls.cert_file", cert_file),
        ("tls.key_file", key_file),
    ] {
        if let Some(path) = file
            && let Err(error) = std::fs::File::open(path)
        {
            problems.add(key, format!("read {}: {error}", path.display()));
        }
    }
    if cert_file.is_some() != key_file.is_some() {
        problems.add(
            "tls.cert_file",
            "a certificate needs its `key_file`, and a key its `cert_file`",
        );
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
