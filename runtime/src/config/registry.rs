//! The kinds of sink that a binary knows.

use std::collections::BTreeMap;
use std::fmt;

use outbox_sinks::{Connector, SinkKind};

use super::document::Document;
use super::key::Key;
use super::read::read;
use super::shape::Shape;

/// The kinds of sink that a binary knows: those built in, and your own.
///
/// ```no_run
/// # struct Shouting;
/// # #[derive(serde::Deserialize)] struct Settings {}
/// # impl outbox_sinks::SinkKind for Shouting {
/// #     const NAME: &'static str = "shouting";
/// #     type Settings = Settings;
/// #     fn connector(_: &str, _: Settings) -> Result<Box<dyn outbox_sinks::Connector>, outbox_sinks::Problems> {
/// #         Ok(Box::new(outbox_sinks::from_fn(|_| async { Ok(outbox_sinks::Delivery::All) })))
/// #     }
/// # }
/// use outbox_runtime::{Registry, cli};
/// fn main() -> std::process::ExitCode {
///     cli::main(Registry::builtin().register::<Shouting>())
/// }
/// ```
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<&'static str, Kind>);

/// What the configuration needs of a kind, with its settings' type forgotten.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) shape: fn() -> Shape,
    pub(super) connector: Build,
}

type Build = fn(&mut Document<'_>, &Key, &str) -> Option<Box<dyn Connector>>;

impl Registry {
    /// No kind at all.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The kinds that this crate's cargo features brought along.
    #[must_use]
    pub fn builtin() -> Self {
        let registry = Self::empty();
        #[cfg(feature = "kafka")]
        let registry = registry.register::<outbox_sinks::kafka::Kind>();
        #[cfg(feature = "nats")]
        let registry = registry.register::<outbox_sinks::nats::Nats>();
        #[cfg(feature = "s3")]
        let registry = registry.register::<outbox_sinks::s3::Kind>();
        #[cfg(feature = "file")]
        let registry = registry
            .register::<outbox_sinks::file::File>()
            .register::<outbox_sinks::file::Stdout>();
        registry
    }

    /// Adds a kind.
    ///
    /// # Panics
    /// If its name is taken, by another kind or by a key that every sink has: a
    /// mistake of the program, not of its operator.
    #[must_use]
    pub fn register<K: SinkKind>(mut self) -> Self {
        let name = K::NAME;
        let reserved = Shape::of::<super::sections::Sink>();
        assert!(
            reserved.keys().all(|(key, _)| key != name),
            "the kind `{name}` is named like a key of every sink"
        );
        let kind = Kind {
            shape: Shape::of::<K::Settings>,
            connector: connector::<K>,
        };
        assert!(
            self.0.insert(name, kind).is_none(),
            "the kind `{name}` is registered twice"
        );
        self
    }

    /// The names of the kinds, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        self.0.iter().map(|(name, kind)| (*name, *kind))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Reads the kind's table and makes the connector; problems are noted at their keys.
fn connector<K: SinkKind>(
    document: &mut Document<'_>,
    key: &Key,
    sink: &str,
) -> Option<Box<dyn Connector>> {
    let settings: K::Settings = read(document, key)?;
    // Without a key that was wrong the settings are not the operator's: judging
    // them would only add problems that are none.
    if document.lost(key) {
        return None;
    }
    match K::connector(sink, settings) {
        Ok(connector) => Some(connector),
        Err(problems) => {
            for problem in &problems {
                document.report(&key.below(&problem.key), &problem.message);
            }
            None
        }
    }
}
