//! What JSON has and TOML has not: `null`. An optional key is left out, so `null` is no
//! alternative, no value and no default. Formats of numbers (`uint32`) say nothing that
//! the limits do not.

use serde_json::{Map, Value};

use super::{each_below, each_part};

/// Takes `null` out of a schema and everything below it.
pub(super) fn tidy(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    each_below(schema, &mut tidy);
    each_part(schema, &mut tidy);
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if matches!(
        schema.get("type").and_then(Value::as_str),
        Some("integer" | "number")
    ) {
        schema.remove("format");
    }
    for keyword in ["anyOf", "oneOf"] {
        one_alternative_less(schema, keyword);
    }
}

/// Without the alternative `null`; if a single one is left, it is the schema.
fn one_alternative_less(schema: &mut Map<String, Value>, keyword: &str) {
    let Some(alternatives) = schema.get_mut(keyword).and_then(Value::as_array_mut) else {
        return;
    };
    let before = alternatives.len();
    alternatives.retain(|alternative| alternative.get("type").is_none_or(|name| name != "null"));
    if alternatives.len() == before {
        return;
    }
    if let [Value::Object(only)] = alternatives.as_mut_slice() {
        let only = std::mem::take(only);
        schema.remove(keyword);
        for (keyword, value) in only {
            // What is said about the key itself is closer than what is said about its type.
            schema.entry(keyword).or_insert(value);
        }
    }
}
