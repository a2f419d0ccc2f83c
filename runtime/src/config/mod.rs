//! The configuration, `sinks.toml`: read strictly, judged completely, before
//! anything is connected.
//!
//! Read in this order: `document` parses the text into a tree of values with their
//! places and fills in variables; `shape` tells which keys there are, and `unknown`
//! refuses all others; `read` makes settings of one table after the other, reporting
//! every problem on the way; `sections` are those tables; `sink` and `registry` join
//! a sink to the kind of its destination.
//!
//! No message repeats a value or a line of the file. Nothing here connects to
//! anything or logs.

mod document;
mod environment;
mod filters;
mod interpolate;
mod key;
mod limits;
mod problems;
mod process;
mod read;
#[cfg(test)]
mod reference;
mod registry;
mod sections;
mod shape;
mod sink;
#[cfg(test)]
mod tests;
mod unknown;

use std::collections::BTreeMap;

use outbox::{ConnectSettings, Filter};

use document::Document;
pub use environment::{Absent, Environment};
use key::Key;
pub use problems::{Place, Problem, Problems};
pub use registry::Registry;
pub use sections::{Log, LogFormat};
pub use shape::Shape;
pub use sink::ConfiguredSink;

use crate::settings::{HttpSettings, RetentionSettings, WorkerSettings};

/// The reference configuration: what `sinks init` writes where there is a sink `file`.
pub const REFERENCE: &str = include_str!("../../sinks.toml");

/// The reference for a binary with these kinds: what a binary without the kind of the
/// sink in it could not read is commented out.
pub(crate) fn reference_for(registry: &Registry) -> String {
    let known = registry.names().any(|kind| kind == "file");
    let mut text = String::with_capacity(REFERENCE.len());
    let mut in_sinks = false;
    for line in REFERENCE.split_inclusive('\n') {
        if line.starts_with('[') {
            in_sinks = line.starts_with("[sinks.");
        }
        let real = !line.starts_with('#') && !line.trim().is_empty();
        if in_sinks && real && !known {
            text.push_str("# ");
        }
        text.push_str(line);
    }
    text
}

/// Everything that `sinks.toml` says.
#[derive(Debug)]
pub struct Config {
    /// The database.
    pub database: ConnectSettings,
    /// What the worker is told.
    pub worker: WorkerSettings,
    /// What the role `http` is told.
    pub http: HttpSettings,
    /// The logs.
    pub log: Log,
    /// The sinks, sorted by name.
    pub sinks: Vec<ConfiguredSink>,
}

/// The part of `sinks.toml` that a command needs which delivers nothing: no sink's
/// variables need to be set for it.
#[derive(Debug)]
pub struct DatabaseConfig {
    /// The database.
    pub database: ConnectSettings,
    /// When rows of the outbox are deleted.
    pub retention: RetentionSettings,
    /// The logs.
    pub log: Log,
    /// The names of the sinks, sorted.
    pub sinks: Vec<String>,
    /// The sinks' filters, as far as they can be read without the sinks' variables.
    pub filters: BTreeMap<String, Filter>,
}

impl Config {
    /// Reads a configuration's text; `file` is its name in messages.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(
        file: &str,
        text: &str,
        registry: &Registry,
        environment: &Environment,
    ) -> Result<Self, Problems> {
        let mut document = Document::parse(file, text)?;
        let whole = whole_shape(registry);
        unknown::refuse_top(&mut document, &whole);
        let names = sink_names(&document);
        for name in &names {
            sink::refuse_absent_kinds(&mut document, registry, &Key::of(["sinks", name]));
        }
        for (section, shape) in whole.keys() {
            prepare(&mut document, section, shape, &whole, environment);
        }
        let database = process::database(&mut document);
        let log = process::log(&mut document);
        let worker = process::worker(&mut document);
        let http = process::http(&mut document);
        let sinks: Vec<_> = names
            .iter()
            .map(|name| sink::configured(&mut document, registry, name))
            .collect();
        if names.is_empty() {
            document.report(&Key::of(["sinks"]), "no sink: add a table [sinks.NAME]");
        }
        let config = (|| {
            Some(Self {
                database: database?,
                worker: worker?,
                http: http?,
                log: log?,
                sinks: sinks.into_iter().collect::<Option<_>>()?,
            })
        })();
        document.finish(config)
    }
}

impl DatabaseConfig {
    /// Reads `[database]`, `[retention]`, `[log]` and the names of the sinks, and looks
    /// at nothing else.
    ///
    /// # Errors
    /// Everything that is wrong with these.
    pub fn parse(
        file: &str,
        text: &str,
        registry: &Registry,
        environment: &Environment,
    ) -> Result<Self, Problems> {
        let mut document = Document::parse(file, text)?;
        let whole = whole_shape(registry);
        unknown::refuse_top(&mut document, &whole);
        let needed = ["database", "retention", "log"];
        for (section, shape) in whole.keys().filter(|(key, _)| needed.contains(key)) {
            prepare(&mut document, section, shape, &whole, environment);
        }
        let database = process::database(&mut document);
        let retention = process::retention(&mut document);
        let log = process::log(&mut document);
        let sinks = sink_names(&document);
        let config = (|| {
            Some(Self {
                database: database?,
                retention: retention?,
                log: log?,
                filters: filters::filters(&document, &sinks),
                sinks,
            })
        })();
        document.finish(config)
    }
}

/// Every key there is.
fn whole_shape(registry: &Registry) -> Shape {
    let mut sink = Shape::of::<sections::Sink>();
    if let Shape::Table(keys) = &mut sink {
        let kinds = registry.kinds();
        keys.extend(kinds.map(|(name, kind)| (name.to_owned(), (kind.shape)())));
    }
    let tables = [
        ("database", Shape::of::<sections::Database>()),
        ("worker", Shape::of::<sections::Worker>()),
        ("poll", Shape::of::<sections::Poll>()),
        ("cursor", Shape::of::<sections::Cursor>()),
        ("retention", Shape::of::<sections::Retention>()),
        ("http", Shape::of::<sections::Http>()),
        ("log", Shape::of::<sections::Log>()),
        ("sinks", Shape::Named(Box::new(sink))),
    ];
    Shape::Table(tables.map(|(key, shape)| (key.to_owned(), shape)).into())
}

fn prepare(
    document: &mut Document<'_>,
    section: &str,
    shape: &Shape,
    whole: &Shape,
    environment: &Environment,
) {
    let key = Key::of([section]);
    unknown::refuse(document, &key, shape, whole);
    document.interpolate(&key, environment);
}

fn sink_names(document: &Document<'_>) -> Vec<String> {
    let sinks = document.get(&Key::of(["sinks"]));
    let tables = sinks.and_then(|sinks| sinks.get_ref().as_table());
    let names = tables.into_iter().flat_map(|tables| tables.keys());
    names
        .map(|name| name.get_ref().clone().into_owned())
        .collect()
}
