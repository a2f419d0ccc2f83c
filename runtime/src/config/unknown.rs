//! Unknown keys: each with the nearest key that is known there, or the table in
//! which it would be known.

use toml::de::DeTable;

use super::document::Document;
use super::key::Key;
use super::shape::Shape;

/// Reports and removes every key below `key` that its shape does not know.
pub(super) fn refuse(document: &mut Document<'_>, key: &Key, shape: &Shape, whole: &Shape) {
    let mut found = Vec::new();
    match document
        .get(key)
        .and_then(|value| value.get_ref().as_table())
    {
        Some(table) => collect(table, key, shape, &mut found),
        // What should be a table and is none is an error of its type.
        None => return,
    }
    for (key, known) in found {
        let message = advice(&key, known, whole);
        document.report(&key, message);
        document.remove(&key);
    }
}

/// The same for the keys of the file's top itself, not for what lies below them.
pub(super) fn refuse_top(document: &mut Document<'_>, whole: &Shape) {
    let is_known = |name: &str| whole.keys().any(|(known, _)| known == name);
    let names = document.root().keys().map(|name| name.get_ref().as_ref());
    let unknown: Vec<_> = names
        .filter(|name| !is_known(name))
        .map(|name| Key::of([name]))
        .collect();
    for key in unknown {
        let message = advice(&key, whole, whole);
        document.report(&key, message);
        document.remove(&key);
    }
}

fn collect<'s>(
    table: &DeTable<'_>,
    key: &Key,
    shape: &'s Shape,
    found: &mut Vec<(Key, &'s Shape)>,
) {
    for (name, value) in table {
        let name = name.get_ref().as_ref();
        let below = match shape {
            Shape::Value | Shape::List(_) => continue,
            Shape::Named(each) => Some(each.as_ref()),
            Shape::Table(keys) => keys.get(name),
        };
        let here = key.child(name);
        match (below, value.get_ref().as_table()) {
            (None, _) => found.push((here, shape)),
            (Some(below), Some(inner)) => collect(inner, &here, below, found),
            (Some(Shape::List(element)), None) => {
                let tables = value.get_ref().as_array().into_iter().flatten();
                for inner in tables.filter_map(|value| value.get_ref().as_table()) {
                    collect(inner, &here, element, found);
                }
            }
            (Some(_), None) => {}
        }
    }
}

fn advice(key: &Key, known_here: &Shape, whole: &Shape) -> String {
    let Some((_, name)) = key.split_last() else {
        return "unknown key".to_owned();
    };
    let here: Vec<_> = known_here.keys().map(|(known, _)| known).collect();
    if let Some(near) = nearest(name, here.iter().copied()) {
        return format!("unknown key; did you mean `{near}`?");
    }
    let mut tables = Vec::new();
    tables_with(name, whole, &Key::default(), key, &mut tables);
    if !tables.is_empty() {
        let tables: Vec<_> = tables.iter().map(|table| format!("[{table}]")).collect();
        return format!("unknown key here; it belongs in {}", tables.join(" or "));
    }
    format!("unknown key; known here: {}", here.join(", "))
}

/// The known name that somebody who wrote this one most likely meant.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<_> = known.collect();
    let scored = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), *known));
    let (distance, near) = scored.min()?;
    // `batch_size` is far from `batch` in letters, and near in mind.
    let begun = known
        .iter()
        .copied()
        .filter(|known| known.len() > 2 && name.starts_with(known));
    let tolerated = match name.chars().count() {
        0..=3 => 1,
        4..=7 => 2,
        _ => 3,
    };
    let close = (distance <= tolerated).then_some(near);
    close.or_else(|| begun.max_by_key(|known| known.len()))
}

/// Every table that knows `name`, under the operator's own names where the key
/// itself is below them.
fn tables_with(name: &str, shape: &Shape, at: &Key, key: &Key, found: &mut Vec<Key>) {
    if shape.keys().any(|(known, _)| known == name) {
        found.push(at.clone());
    }
    for (part, below) in shape.keys() {
        tables_with(name, below, &at.child(part), key, found);
    }
    if let Shape::Named(each) = shape {
        let depth = at.parts().count();
        let same = key.is_within(at).then(|| key.parts().nth(depth)).flatten();
        tables_with(name, each, &at.child(same.unwrap_or("NAME")), key, found);
    }
}
