//! Variables: any text of the file may hold `${NAME}`, which is filled in after parsing.
//! So a text is held to a pattern, a length or a list of values only if it has no
//! variable in it. Numbers and booleans are not quoted and never come from a variable.

use serde_json::{Map, Value, json};

use super::{each_below, each_part};

/// What only explains, and constrains nothing.
const NOTES: [&str; 8] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
];

/// Lets texts with variables pass, in a schema and everything below it.
pub(super) fn admit(schema: &mut Value) {
    let Some(parts) = schema.as_object_mut() else {
        return;
    };
    below(parts);
    if !constrains_text(parts) {
        return;
    }
    let (notes, rules): (Map<_, _>, Map<_, _>) = std::mem::take(parts)
        .into_iter()
        .partition(|(keyword, _)| NOTES.contains(&keyword.as_str()));
    *parts = notes;
    let variable = json!({ "type": "string", "pattern": r"\$\{" });
    parts.insert("anyOf".to_owned(), json!([rules, variable]));
}

/// The parts of one schema are about one text: where it may hold a variable, it is the
/// whole that lets it pass. (Each part on its own would make `oneOf` match twice.)
fn below(schema: &mut Map<String, Value>) {
    each_below(schema, &mut admit);
    each_part(schema, &mut |part| {
        part.as_object_mut().into_iter().for_each(below);
    });
}

/// Whether some texts are valid and others are not.
fn constrains_text(schema: &Map<String, Value>) -> bool {
    let names_text = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|name| name == "string"),
        Some(name) => name == "string",
        None => false,
    };
    let rules = [
        "pattern",
        "minLength",
        "maxLength",
        "contentEncoding",
        "enum",
        "const",
    ];
    let is_format = schema
        .get("format")
        .is_some_and(|format| format != "password");
    let by_rule = is_format || rules.iter().any(|rule| schema.contains_key(*rule));
    let lists_text = schema.get("const").is_some_and(Value::is_string)
        || schema
            .get("enum")
            .and_then(Value::as_array)
            .is_some_and(|values| values.iter().any(Value::is_string));
    let in_part = ["oneOf", "anyOf", "allOf"].iter().any(|keyword| {
        let parts = schema.get(*keyword).and_then(Value::as_array);
        let parts = parts.into_iter().flatten().filter_map(Value::as_object);
        parts.into_iter().any(constrains_text)
    });
    (names_text && by_rule) || lists_text || in_part
}
