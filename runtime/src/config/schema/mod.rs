//! The JSON Schema of `sinks.toml` for the kinds a binary knows, so that an editor
//! completes keys, shows what they mean and marks mistakes while they are made.
//!
//! It follows from the settings types, as everything else about keys does. It promises
//! one direction: a file that is read without a problem is valid. The other way round it
//! says what a schema can say; `sinks check` judges the rest. In particular any text may
//! hold a `${NAME}` (see `variables`).

mod close;
mod tidy;
mod variables;

use outbox_sinks::schemars::SchemaGenerator;
use outbox_sinks::schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::registry::Registry;
use super::sections::Sink;
use super::shape::Shape;
use super::{SECTIONS, limits, sink_shape};
use outbox_sinks::schemars::JsonSchema;

/// The schema of the whole file, draft 2020-12.
pub(crate) fn schema(registry: &Registry) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator();
    let mut tables = Map::new();
    for section in SECTIONS {
        let mut table = (section.schema)(&mut generator).to_value();
        close::close(&mut table, &(section.shape)());
        if section.name == "database" {
            set(&mut table, "oneOf", one_of(["url", "url_file"].into_iter()));
        }
        tables.insert(section.name.to_owned(), table);
    }
    tables.insert("sinks".to_owned(), sinks(registry, &mut generator));
    let mut whole = json!({
        "$schema": generator.settings().meta_schema,
        "title": "sinks.toml",
        "description": "The configuration of Outbox Sinks. `sinks check` judges it completely.",
        "type": "object",
        "properties": tables,
        "required": ["database", "sinks"],
        "additionalProperties": false,
    });
    // Only a type that holds itself is not written out where it is used.
    let definitions = generator.take_definitions(true);
    if !definitions.is_empty() {
        set(&mut whole, "$defs", definitions.into());
    }
    tidy::tidy(&mut whole);
    variables::admit(&mut whole);
    whole
}

/// The table `[sinks]`: names of the operator's, and below each exactly one kind.
fn sinks(registry: &Registry, generator: &mut SchemaGenerator) -> Value {
    let mut sink = Sink::json_schema(generator).to_value();
    if let Some(properties) = sink.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, kind) in registry.kinds() {
            properties.insert(name.to_owned(), (kind.schema)(generator).to_value());
        }
    }
    close::close(&mut sink, &sink_shape(registry));
    let destination = match registry.names().next() {
        Some(_) => ("oneOf", one_of(registry.names())),
        None => ("not", json!({})),
    };
    set(&mut sink, destination.0, destination.1);
    json!({
        "description": "The sinks, each under a name of yours: a-z, 0-9, _ and -.",
        "type": "object",
        "propertyNames": { "pattern": limits::NAME },
        "additionalProperties": sink,
        "minProperties": 1,
    })
}

/// Exactly one of these keys.
fn one_of<'k>(keys: impl Iterator<Item = &'k str>) -> Value {
    keys.map(|key| json!({ "required": [key] })).collect()
}

fn set(schema: &mut Value, keyword: &str, value: Value) {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert(keyword.to_owned(), value);
    }
}

/// Calls `visit` with each schema right below this one: for keys of a table, for elements
/// of a list, for definitions.
fn each_below(schema: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    for keyword in ["properties", "patternProperties", "$defs"] {
        let named = schema.get_mut(keyword).and_then(Value::as_object_mut);
        named
            .into_iter()
            .flatten()
            .for_each(|(_, below)| visit(below));
    }
    for keyword in [
        "additionalProperties",
        "unevaluatedProperties",
        "items",
        "contains",
    ] {
        schema.get_mut(keyword).into_iter().for_each(&mut *visit);
    }
    let listed = schema.get_mut("prefixItems").and_then(Value::as_array_mut);
    listed.into_iter().flatten().for_each(visit);
}

/// Calls `visit` with each alternative or part that this schema is put together from.
fn each_part(schema: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    for keyword in ["oneOf", "anyOf", "allOf"] {
        let parts = schema.get_mut(keyword).and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(&mut *visit);
    }
}

#[cfg(test)]
pub(super) mod tests;
