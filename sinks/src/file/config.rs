//! The settings of the kinds `file` and `stdout`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::sink::FileConnector;
use super::stdout::StdoutConnector;
use crate::{Connector, Encoder, Format, Problems, SinkKind};

/// The kind `file`.
#[derive(Clone, Copy, Debug)]
pub struct File;

/// A file, to which one JSON object a line is appended.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FileSettings {
    /// The file that is appended to. Its folder must exist.
    pub path: PathBuf,
    /// Whether an event counts as delivered only once it is on the disk.
    #[serde(default = "default_sync")]
    pub sync: bool,
    /// The form of an event: `native` or `cloudevents`.
    #[serde(default)]
    pub format: Format,
    /// The `source` attribute of the CloudEvents format.
    #[serde(default = "crate::Encoder::default_source")]
    pub source: String,
}

impl FileSettings {
    /// Those of a file with nothing else said: native lines, synced.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            sync: default_sync(),
            format: Format::default(),
            source: Encoder::default_source(),
        }
    }
}

/// The kind `stdout`.
#[derive(Clone, Copy, Debug)]
pub struct Stdout;

/// Standard output, for debugging: one JSON object a line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StdoutSettings {
    /// The form of an event: `native` or `cloudevents`.
    #[serde(default)]
    pub format: Format,
    /// The `source` attribute of the CloudEvents format.
    #[serde(default = "crate::Encoder::default_source")]
    pub source: String,
}

fn default_sync() -> bool {
    true
}

impl SinkKind for File {
    const NAME: &'static str = "file";
    type Settings = FileSettings;

    fn connector(_name: &str, settings: FileSettings) -> Result<Box<dyn Connector>, Problems> {
        let mut problems = Problems::default();
        if settings.path.as_os_str().is_empty() {
            problems.add("path", "name the file, like /var/lib/outbox/events.ndjson");
        }
        let encoder = encoder(settings.format, settings.source, &mut problems);
        problems.into_result()?;
        Ok(Box::new(FileConnector::new(
            settings.path,
            settings.sync,
            encoder,
        )))
    }
}

impl SinkKind for Stdout {
    const NAME: &'static str = "stdout";
    type Settings = StdoutSettings;

    fn connector(_name: &str, settings: StdoutSettings) -> Result<Box<dyn Connector>, Problems> {
        let mut problems = Problems::default();
        let encoder = encoder(settings.format, settings.source, &mut problems);
        problems.into_result()?;
        Ok(Box::new(StdoutConnector::new(encoder)))
    }
}

fn encoder(format: Format, source: String, problems: &mut Problems) -> Encoder {
    if format == Format::CloudEventsBinary {
        problems.add(
            "format",
            "a line has no headers: write \"native\" or \"cloudevents\"",
        );
    }
    Encoder::new(format, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_with_headers_is_refused() {
        let settings = serde_json::from_str(r#"{"format":"cloudevents-binary"}"#).unwrap();
        let problems = Stdout::connector("x", settings).err().unwrap();
        assert_eq!(problems.iter().next().unwrap().key, "format");
    }

    #[test]
    fn the_order_that_is_kept_is_that_of_a_subject() {
        let path = serde_json::from_str(r#"{"path":"/x"}"#).unwrap();
        let nothing = serde_json::from_str("{}").unwrap();
        let file = File::connector("x", path).unwrap();
        let stdout = Stdout::connector("x", nothing).unwrap();
        let payload = r#"{"id":"e","type":"a.b","subject":"node/7"}"#;
        let event = crate::Event::new(crate::Position::new(1, 1), "a.b", payload);
        assert_eq!(file.key(&event), "node/7");
        assert_eq!(stdout.key(&event), "node/7");
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(serde_json::from_str::<FileSettings>(r#"{"path":"/x","sinc":true}"#).is_err());
    }
}
