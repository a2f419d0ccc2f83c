//! The kinds of sink that a binary knows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use outbox_sinks::schemars::{JsonSchema, Schema, SchemaGenerator};
use outbox_sinks::{Batch, Connector, Delivery, Problems, SinkError, SinkKind, from_fn};
use serde::de::DeserializeOwned;

use super::document::Document;
use super::key::Key;
use super::read::read;
use super::shape::Shape;

/// The kinds of sink that a binary knows: those built in, and your own.
///
/// ```no_run
/// # struct Shouting;
/// # use outbox_sinks::schemars;
/// # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Settings {}
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
#[derive(Clone)]
pub(super) struct Kind {
    pub(super) shape: fn() -> Shape,
    pub(super) schema: fn(&mut SchemaGenerator) -> Schema,
    pub(super) connector: Arc<Build>,
}

/// Reads the kind's table and makes the connector; problems are noted at their keys.
type Build = dyn Fn(&mut Document<'_>, &Key, &str) -> Option<Box<dyn Connector>> + Send + Sync;

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
    pub fn register<K: SinkKind>(self) -> Self {
        self.with(K::NAME, K::connector)
    }

    /// Adds a kind that is no more than a function, and is asked for each batch. Its first
    /// argument are the settings, the table `[sinks.<name>.<kind>]`; what it returns is the
    /// delivery's outcome, as with [`from_fn`]. For settings that serde can't judge, a probe
    /// for `sinks check --online`, or anything that outlives one batch, write a [`SinkKind`].
    ///
    /// ```no_run
    /// use outbox_runtime::{Registry, cli};
    /// use outbox_sinks::{Batch, Delivery, schemars};
    ///
    /// #[derive(Clone, serde::Deserialize, schemars::JsonSchema)]
    /// struct Shout {
    ///     /// What comes after each event.
    ///     mark: String,
    /// }
    ///
    /// fn main() -> std::process::ExitCode {
    ///     cli::main(Registry::builtin().function("shout", |to: Shout, batch: Batch| async move {
    ///         for event in &batch {
    ///             println!("{}{}", event.event_type(), to.mark);
    ///         }
    ///         Ok(Delivery::All)
    ///     }))
    /// }
    /// ```
    ///
    /// # Panics
    /// As [`Registry::register`].
    #[must_use]
    pub fn function<S, F, Fut>(self, kind: &'static str, deliver: F) -> Self
    where
        S: DeserializeOwned + JsonSchema + Clone + Send + Sync + 'static,
        F: Fn(S, Batch) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Delivery, SinkError>> + Send + 'static,
    {
        self.with(kind, move |_sink: &str, settings: S| {
            let deliver = deliver.clone();
            let connector = from_fn(move |batch| deliver(settings.clone(), batch));
            Ok(Box::new(connector) as Box<dyn Connector>)
        })
    }

    fn with<S: DeserializeOwned + JsonSchema>(
        mut self,
        name: &'static str,
        connector: impl Fn(&str, S) -> Result<Box<dyn Connector>, Problems> + Send + Sync + 'static,
    ) -> Self {
        let reserved = Shape::of::<super::sections::Sink>();
        assert!(
            reserved.keys().all(|(key, _)| key != name),
            "the kind `{name}` is named like a key of every sink"
        );
        let kind = Kind {
            shape: Shape::of::<S>,
            schema: S::json_schema,
            connector: Arc::new(move |document: &mut Document<'_>, key: &Key, sink: &str| {
                build(document, key, |settings| connector(sink, settings))
            }),
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

    pub(super) fn kinds(&self) -> impl Iterator<Item = (&'static str, &Kind)> {
        self.0.iter().map(|(name, kind)| (*name, kind))
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

fn build<S: DeserializeOwned>(
    document: &mut Document<'_>,
    key: &Key,
    connector: impl FnOnce(S) -> Result<Box<dyn Connector>, Problems>,
) -> Option<Box<dyn Connector>> {
    let settings: S = read(document, key)?;
    // Without a key that was wrong the settings are not the operator's: judging
    // them would only add problems that are none.
    if document.lost(key) {
        return None;
    }
    match connector(settings) {
        Ok(connector) => Some(connector),
        Err(problems) => {
            for problem in &problems {
                document.report(&key.below(&problem.key), &problem.message);
            }
            None
        }
    }
}
