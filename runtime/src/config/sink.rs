//! `[sinks.NAME]`: its settings and, from the table of its kind, its connector.

use std::time::Duration;

use outbox::{Filter, TypePattern};
use outbox_sinks::Connector;
use outbox_sinks::settings::Size;

use super::document::Document;
use super::key::Key;
use super::registry::Registry;
use super::sections;
use super::{limits, read::read};
use crate::settings::{
    BatchOverrides, OnPoison, PoisonSettings, RetrySettings, SinkSettings, Start,
};

/// A configured sink.
#[derive(Debug)]
pub struct ConfiguredSink {
    /// What the worker is told about it.
    pub settings: SinkSettings,
    /// The kind of its destination, for example `kafka`.
    pub kind: &'static str,
    /// The way to its destination; nothing is connected yet.
    pub connector: Box<dyn Connector>,
}

/// The kinds this project has, to tell a kind left out of a build from a typo.
pub(super) const PROJECT_KINDS: [&str; 5] = ["file", "kafka", "nats", "s3", "stdout"];

/// Reads one sink; whatever is wrong is noted.
pub(super) fn configured(
    document: &mut Document<'_>,
    registry: &Registry,
    name: &str,
) -> Option<ConfiguredSink> {
    let key = Key::of(["sinks", name]);
    if !limits::is_name(name) {
        let rule =
            "a sink's name is 1 to 63 of a-z, 0-9, _ and -, and starts with a letter or digit";
        document.report(&key, rule);
    }
    let value = document.get(&key)?;
    if !value.get_ref().is_table() {
        let message = format!("expected a table, found {}", value.get_ref().type_str());
        document.report(&key, message);
        return None;
    }
    let destination = destination(document, registry, &key, name);
    let section: sections::Sink = read(document, &key)?;
    let settings = settings(document, &key, name, section);
    let (kind, connector) = destination?;
    Some(ConfiguredSink {
        settings: settings?,
        kind,
        connector,
    })
}

/// The connector from the one table named after a kind.
fn destination(
    document: &mut Document<'_>,
    registry: &Registry,
    key: &Key,
    name: &str,
) -> Option<(&'static str, Box<dyn Connector>)> {
    let has = |kind: &str| document.get(&key.child(kind)).is_some();
    let given: Vec<_> = registry.kinds().filter(|(kind, _)| has(kind)).collect();
    let known = || registry.names().collect::<Vec<_>>().join(", ");
    if let [(kind, with)] = given.as_slice() {
        let connector = (with.connector)(document, &key.child(kind), name)?;
        return Some((kind, connector));
    }
    if let Some((second, _)) = given.get(1) {
        let names: Vec<_> = given.iter().map(|(kind, _)| *kind).collect();
        let message = format!(
            "a sink has one destination, this one has {}: make a sink of each",
            names.join(" and ")
        );
        document.report(&key.child(second), message);
        return None;
    }
    // A misspelt kind was reported as an unknown key.
    if !document.lost(key) {
        let message = format!(
            "no destination: add a table [{key}.KIND], where KIND is one of {}",
            known()
        );
        document.report(key, message);
    }
    None
}

/// Reports a kind of this project that this binary was built without.
pub(super) fn refuse_absent_kinds(document: &mut Document<'_>, registry: &Registry, key: &Key) {
    for kind in PROJECT_KINDS {
        let here = key.child(kind);
        if registry.names().all(|known| known != kind) && document.get(&here).is_some() {
            let feature = if kind == "stdout" { "file" } else { kind };
            let message = format!(
                "this program has no sink of kind {kind}: use a build with the cargo feature {feature}, or remove this table"
            );
            document.report(&here, message);
            document.remove(&here);
        }
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn settings(
    document: &mut Document<'_>,
    key: &Key,
    name: &str,
    section: sections::Sink,
) -> Option<SinkSettings> {
    let types = patterns(document, &key.child("events"), &section.events);
    if section.tenants.iter().any(String::is_empty) {
        document.report(&key.child("tenants"), "a tenant's id is never empty");
    }
    let delivery_timeout = *section.delivery_timeout;
    limits::duration(
        document,
        &key.child("delivery_timeout"),
        delivery_timeout,
        100 * MILLISECOND..=HOUR,
    );
    Some(SinkSettings {
        name: name.to_owned(),
        start: match section.start {
            sections::Start::Beginning => Start::Beginning,
            sections::Start::Head => Start::Head,
        },
        batch: batch(document, &key.child("batch"), &section.batch),
        retry: retry(document, &key.child("retry"), &section.retry),
        delivery_timeout,
        poison: poison(
            document,
            &key.child("poison"),
            section.on_poison,
            &section.poison,
        ),
        filter: Filter {
            types: types?,
            tenants: section.tenants,
        },
    })
}

fn batch(document: &mut Document<'_>, key: &Key, section: &sections::Batch) -> BatchOverrides {
    let max_bytes = section.max_bytes.map(Size::as_usize);
    if let Some(events) = section.max_events {
        limits::number(
            document,
            &key.child("max_events"),
            &events,
            &(1..=10_000_000),
        );
    }
    if max_bytes.is_some_and(|bytes| !(1024..=4 << 30).contains(&bytes)) {
        document.report(&key.child("max_bytes"), "must be between 1KiB and 4GiB");
    }
    let max_wait = section.max_wait.map(Duration::from);
    if let Some(wait) = max_wait {
        limits::duration(document, &key.child("max_wait"), wait, Duration::ZERO..=DAY);
    }
    BatchOverrides {
        max_events: section.max_events,
        max_bytes,
        max_wait,
    }
}

fn retry(document: &mut Document<'_>, key: &Key, section: &sections::Retry) -> RetrySettings {
    let (initial, max) = (*section.initial, *section.max);
    limits::duration(document, &key.child("initial"), initial, MILLISECOND..=HOUR);
    limits::duration(document, &key.child("max"), max, MILLISECOND..=DAY);
    if initial > max {
        document.report(&key.child("initial"), "must not be longer than retry.max");
    }
    RetrySettings { initial, max }
}

fn poison(
    document: &mut Document<'_>,
    key: &Key,
    on_poison: OnPoison,
    section: &sections::Poison,
) -> PoisonSettings {
    let sections::Poison {
        attempts,
        max_dead_letters,
        window,
    } = *section;
    let window = *window;
    limits::number(document, &key.child("attempts"), &attempts, &(1..=1000));
    let fuse = key.child("max_dead_letters");
    limits::number(document, &fuse, &max_dead_letters, &(1..=1_000_000));
    limits::duration(document, &key.child("window"), window, SECOND..=30 * DAY);
    PoisonSettings {
        attempts,
        on_poison,
        max_dead_letters,
        window,
    }
}

fn patterns(document: &mut Document<'_>, key: &Key, texts: &[String]) -> Option<Vec<TypePattern>> {
    let mut patterns = Vec::with_capacity(texts.len());
    for (i, text) in texts.iter().enumerate() {
        match text.parse() {
            Ok(pattern) => patterns.push(pattern),
            Err(_) => {
                let span = document
                    .get(key)
                    .and_then(|list| list.get_ref().get(i))
                    .map(toml::Spanned::span);
                let message = "matches no event type: write a type such as order.paid, a family \
                               such as order.*, or *";
                document.report_at(span, key, message);
            }
        }
    }
    (patterns.len() == texts.len()).then_some(patterns)
}
