//! One table of the file into one settings type, with every problem it has.
//!
//! serde stops at the first error. So an offending key is reported, taken out of
//! the tree, and the table read again, until it can be read or nothing more can be
//! taken out. Messages say what was expected and never what was found there.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error, ValueDeserializer};

use super::document::{Document, Value};
use super::key::Key;
use super::unknown::nearest;

/// Reads the table at `key`; an absent one as an empty one. Its unknown keys are
/// gone already. `None` if it can't be read, whatever is taken out.
pub(super) fn read<T: DeserializeOwned>(document: &mut Document<'_>, key: &Key) -> Option<T> {
    loop {
        let absent = || Spanned::new(0..0, DeValue::Table(DeTable::new()));
        let value = document.get(key).cloned().unwrap_or_else(absent);
        let error = match T::deserialize(ValueDeserializer::from(value.clone())) {
            Ok(settings) => return Some(settings),
            Err(error) => error,
        };
        if let Some(name) = between(error.message(), "missing field `", "`") {
            let table = innermost(&value, key, error.span());
            report_missing(document, &table.child(name));
            return None;
        }
        let culprit = innermost(&value, key, error.span());
        let message = explain(&error, document.get(&culprit).unwrap_or(&value));
        document.report_at(error.span(), &culprit, message);
        if culprit == *key {
            return None;
        }
        document.remove(&culprit);
    }
}

/// A key that was there and wrong was reported already.
fn report_missing(document: &mut Document<'_>, key: &Key) {
    if !document.lost(key) {
        document.report(key, "missing");
    }
}

/// The deepest key whose value, or name, holds the span.
fn innermost(value: &Value<'_>, key: &Key, span: Option<Range<usize>>) -> Key {
    let found = span.and_then(|span| deepest(value.get_ref().as_table()?, key, &span));
    found.unwrap_or_else(|| key.clone())
}

/// A table's own span may be no more than its header, so each is looked into.
fn deepest(table: &DeTable<'_>, key: &Key, span: &Range<usize>) -> Option<Key> {
    let holds = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    table.iter().find_map(|(name, value)| {
        let here = key.child(name.get_ref());
        let inner = value.get_ref().as_table();
        let deeper = inner.and_then(|inner| deepest(inner, &here, span));
        deeper.or_else(|| (holds(value.span()) || holds(name.span())).then_some(here))
    })
}

/// What was expected, in words that hold nothing of the value.
fn explain(error: &Error, value: &Value<'_>) -> String {
    let message = error.message();
    let found = value.get_ref().type_str();
    if let Some((_, expected)) = split_expected(message, "invalid type: ") {
        return format!("expected {}, found {found}", with_example(expected));
    }
    if let Some((_, expected)) = split_expected(message, "invalid value: ") {
        return format!("expected {}", with_example(expected));
    }
    if let Some((_, expected)) = split_expected(message, "unknown variant ") {
        let known = expected.split('`').skip(1).step_by(2);
        let near = nearest(value.get_ref().as_str().unwrap_or_default(), known);
        let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return format!("expected {expected}{hint}");
    }
    if let Some(expected) = message.strip_prefix("wanted ") {
        return format!("expected {expected}, found {found}");
    }
    // An error of the setting's own type may quote the value, or an element of it.
    let mut texts = Vec::new();
    collect_texts(value.get_ref(), &mut texts);
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    let hide = |message: String, text: &&str| message.replace(*text, "…");
    texts.iter().fold(message.to_owned(), hide)
}

/// Every text within a value, except those too short to hide anything.
fn collect_texts<'v>(value: &'v DeValue<'_>, texts: &mut Vec<&'v str>) {
    texts.extend(value.as_str().filter(|text| text.len() > 2));
    for element in value.as_array().into_iter().flatten() {
        collect_texts(element.get_ref(), texts);
    }
    for element in value.as_table().into_iter().flat_map(DeTable::values) {
        collect_texts(element.get_ref(), texts);
    }
}

fn split_expected<'m>(message: &'m str, prefix: &str) -> Option<(&'m str, &'m str)> {
    message.strip_prefix(prefix)?.rsplit_once(", expected ")
}

fn with_example(expected: &str) -> String {
    match expected {
        "a duration" => "a duration such as \"250ms\", \"30s\" or \"5m\"".to_owned(),
        other => other.to_owned(),
    }
}

fn between<'m>(message: &'m str, before: &str, after: &str) -> Option<&'m str> {
    Some(message.strip_prefix(before)?.split_once(after)?.0)
}
