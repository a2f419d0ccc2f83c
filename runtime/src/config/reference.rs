//! The shipped `sinks.toml` is documentation, default and fixture: this keeps the
//! three the same.
//!
//! A line `# key = value` states a default. One that ends with `# required` or
//! `# example` does not: the former must be said, the latter is only an example.

use std::fmt::Debug;

use serde::de::DeserializeOwned;

use super::read::read;
use super::*;

/// The reference with some of its commented lines made real.
fn reference(taken: impl Fn(Option<&str>) -> bool) -> String {
    let real = |line: &str| {
        let inner = line.strip_prefix("# ")?;
        let (content, mark) = match inner.rsplit_once("  # ") {
            Some((content, mark)) => (content, Some(mark)),
            None => (inner, None),
        };
        let is_header = content.starts_with('[') && content.ends_with(']');
        let is_key = content.split_once(" = ").is_some_and(|(key, _)| {
            !key.is_empty() && key.trim_matches('"').split(' ').count() == 1
        });
        (is_header || (is_key && taken(mark))).then(|| content.to_owned())
    };
    let lines = REFERENCE.lines();
    lines
        .map(|line| real(line).unwrap_or_else(|| line.to_owned()) + "\n")
        .collect()
}

fn everything() -> String {
    reference(|_| true)
}

fn documented(document: &Document<'_>, key: &Key, shape: &Shape, missing: &mut Vec<String>) {
    for (name, below) in shape.keys() {
        let here = key.child(name);
        if document.get(&here).is_none() {
            missing.push(here.to_string());
        }
        documented(document, &here, below, missing);
    }
}

#[test]
fn the_reference_is_a_configuration_as_it_is() {
    let environment = Environment::fixed([("DATABASE_URL", "postgres://u@h/d")]);
    let config = Config::parse("sinks.toml", REFERENCE, &Registry::builtin(), &environment);
    let built = cfg!(feature = "file");
    match config {
        Ok(config) => assert!(built && config.sinks.len() == 1),
        Err(problems) => assert!(!built, "{problems}"),
    }
    if built {
        assert_eq!(reference_for(&Registry::builtin()), REFERENCE);
    }
}

#[test]
fn without_the_kind_file_the_reference_lacks_nothing_but_a_sink() {
    let text = reference_for(&Registry::empty());
    let environment = Environment::fixed([("DATABASE_URL", "postgres://u@h/d")]);
    let config = Config::parse("sinks.toml", &text, &Registry::empty(), &environment);
    assert_eq!(
        config.unwrap_err().to_string(),
        "sinks.toml: sinks: no sink: add a table [sinks.NAME]"
    );
    let uncommented = text.replace("# [sinks.events", "[sinks.events");
    assert_eq!(
        uncommented.replace("# path = \"events.ndjson\"", "path = \"events.ndjson\""),
        REFERENCE
    );
}

#[test]
fn every_key_is_in_the_reference() {
    let registry = Registry::builtin();
    let text = everything();
    let document = Document::parse("sinks.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let mut missing = Vec::new();
    for (section, shape) in whole_shape(&Registry::empty()).keys() {
        documented(&document, &Key::of([section]), shape, &mut missing);
    }
    let sink = Shape::of::<sections::Sink>();
    documented(
        &document,
        &Key::of(["sinks", "events"]),
        &sink,
        &mut missing,
    );
    for (kind, with) in registry.kinds() {
        let names = sink_names(&document).into_iter();
        let mut keys = names.map(|name| Key::of(["sinks", &name, kind]));
        let key = keys.find(|key| document.get(key).is_some());
        let key = key.unwrap_or_else(|| panic!("no sink of the reference is a {kind}"));
        documented(&document, &key, &(with.shape)(), &mut missing);
    }
    assert_eq!(missing, [""; 0], "keys without a line in sinks.toml");
}

#[test]
fn the_reference_has_no_key_that_is_unknown() {
    let registry = Registry::builtin();
    let whole = whole_shape(&registry);
    let text = everything();
    let mut document = Document::parse("sinks.toml", &text).unwrap();
    for name in sink_names(&document) {
        for kind in sink::PROJECT_KINDS {
            if registry.names().all(|known| known != kind) {
                document.remove(&Key::of(["sinks", &name, kind]));
            }
        }
    }
    for (section, shape) in whole.keys() {
        unknown::refuse(&mut document, &Key::of([section]), shape, &whole);
    }
    document.finish(Some(())).unwrap_or_else(|e| panic!("{e}"));
}

/// Reads a table once with only what must be said, once with the stated defaults.
fn defaults_are_real<T: DeserializeOwned + Debug>(key: &Key) {
    let shown = |text: &str| {
        let mut document = Document::parse("sinks.toml", text).unwrap();
        let settings = read::<T>(&mut document, key);
        let settings = document.finish(settings).unwrap_or_else(|e| panic!("{e}"));
        format!("{settings:#?}")
    };
    let least = shown(&reference(|mark| mark == Some("required")));
    let stated = shown(&reference(|mark| mark != Some("example")));
    assert_eq!(stated, least, "defaults of {key}");
}

#[test]
fn the_stated_defaults_are_the_real_ones() {
    defaults_are_real::<sections::Database>(&Key::of(["database"]));
    defaults_are_real::<sections::Worker>(&Key::of(["worker"]));
    defaults_are_real::<sections::Poll>(&Key::of(["poll"]));
    defaults_are_real::<sections::Cursor>(&Key::of(["cursor"]));
    defaults_are_real::<sections::Retention>(&Key::of(["retention"]));
    defaults_are_real::<sections::Http>(&Key::of(["http"]));
    defaults_are_real::<Log>(&Key::of(["log"]));
    defaults_are_real::<sections::Sink>(&Key::of(["sinks", "events"]));
    #[cfg(feature = "kafka")]
    defaults_are_real::<outbox_sinks::kafka::Settings>(&Key::of(["sinks", "orders", "kafka"]));
    #[cfg(feature = "nats")]
    defaults_are_real::<outbox_sinks::nats::Settings>(&Key::of(["sinks", "live", "nats"]));
    #[cfg(feature = "s3")]
    defaults_are_real::<outbox_sinks::s3::Settings>(&Key::of(["sinks", "warehouse", "s3"]));
    #[cfg(feature = "file")]
    {
        use outbox_sinks::file::{FileSettings, StdoutSettings};
        defaults_are_real::<FileSettings>(&Key::of(["sinks", "events", "file"]));
        defaults_are_real::<StdoutSettings>(&Key::of(["sinks", "console", "stdout"]));
    }
}
