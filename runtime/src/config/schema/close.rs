//! Unknown keys are errors, in the schema where they are for the reader: wherever the
//! shape of a settings type knows its keys, whether or not the type asked for that.

use serde_json::{Map, Value, json};

use super::{Shape, each_part};

/// Closes every table of the schema whose keys the shape knows.
pub(super) fn close(schema: &mut Value, shape: &Shape) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    match shape {
        Shape::Table(_) if schema.contains_key("properties") => close_table(schema, shape),
        // An optional table is one of two alternatives, the other is none.
        Shape::Table(_) => each_part(schema, &mut |part| {
            let is_table = part.get("properties").is_some();
            if is_table {
                close(part, shape);
            }
        }),
        Shape::List(element) => {
            if let Some(items) = schema.get_mut("items") {
                close(items, element);
            }
        }
        Shape::Value | Shape::Named(_) => {}
    }
}

fn close_table(schema: &mut Map<String, Value>, shape: &Shape) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (key, below) in shape.keys() {
            // What the reader takes and the type's schema does not describe is free.
            let property = properties.entry(key).or_insert_with(|| json!({}));
            close(property, below);
        }
    }
    schema.insert("additionalProperties".to_owned(), false.into());
}
