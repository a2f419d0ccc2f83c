//! A configuration file as a tree of values that remember their place.
//!
//! Variables are filled in after parsing and only inside of string values: what
//! the environment holds can be no key, no table and no other type of value.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::Environment;
use super::interpolate::interpolate;
use super::key::Key;
use super::problems::{Place, Problems};

/// A value of the tree.
pub(super) type Value<'i> = Spanned<DeValue<'i>>;

/// A parsed file, and what was found to be wrong with it so far.
pub(super) struct Document<'i> {
    text: &'i str,
    root: DeTable<'i>,
    problems: Problems,
    removed: Vec<Key>,
}

impl<'i> Document<'i> {
    /// Parses a file.
    ///
    /// # Errors
    /// Every error of syntax.
    pub(super) fn parse(file: &str, text: &'i str) -> Result<Self, Problems> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut document = Self {
            text,
            root: root.into_inner(),
            problems: Problems::of(file),
            removed: Vec::new(),
        };
        for error in &errors {
            let place = error.span().map(|span| place(text, span.start));
            document.problems.add(place, "", error.message());
        }
        if errors.is_empty() {
            Ok(document)
        } else {
            document.problems.check(None)
        }
    }

    /// The top table.
    pub(super) const fn root(&self) -> &DeTable<'i> {
        &self.root
    }

    /// The value at a key.
    pub(super) fn get(&self, key: &Key) -> Option<&Value<'i>> {
        let (parents, last) = key.split_last()?;
        let mut table = &self.root;
        for parent in parents {
            table = table.get(parent.as_str())?.get_ref().as_table()?;
        }
        table.get(last)
    }

    /// Takes the value at a key out of the tree: it was reported as wrong, and
    /// reading goes on without it.
    pub(super) fn remove(&mut self, key: &Key) {
        self.removed.push(key.clone());
        let Some((parents, last)) = key.split_last() else {
            return;
        };
        let mut table = &mut self.root;
        for parent in parents {
            match table.get_mut(parent.as_str()).map(Spanned::get_mut) {
                Some(DeValue::Table(inner)) => table = inner,
                _ => return,
            }
        }
        table.remove(last);
    }

    /// Whether something was removed at this key or below it.
    pub(super) fn lost(&self, key: &Key) -> bool {
        self.removed.iter().any(|removed| removed.is_within(key))
    }

    /// Notes a problem at a key: at its own place, or that of the nearest table
    /// around it.
    pub(super) fn report(&mut self, key: &Key, message: impl Into<String>) {
        let span = self.key_span(key);
        self.report_at(span, key, message);
    }

    /// Notes a problem about a key at a span of the text.
    pub(super) fn report_at(
        &mut self,
        span: Option<Range<usize>>,
        key: &Key,
        message: impl Into<String>,
    ) {
        let place = span.map(|span| place(self.text, span.start));
        self.problems.add(place, key.to_string(), message);
    }

    /// Fills in the variables of everything below a key. A value whose variable is
    /// missing is reported and removed.
    pub(super) fn interpolate(&mut self, key: &Key, environment: &Environment) {
        let mut missing = Vec::new();
        if let Some((parents, last)) = key.split_last() {
            let mut table = Some(&mut self.root);
            for parent in parents {
                table = table
                    .and_then(|table| table.get_mut(parent.as_str()))
                    .and_then(as_table_mut);
            }
            if let Some(value) = table.and_then(|table| table.get_mut(last)) {
                fill(value, key, environment, &mut missing);
            }
        }
        for (key, span, message) in missing {
            self.report_at(Some(span), &key, message);
            self.remove(&key);
        }
    }

    /// Ends the reading: the value, if nothing is wrong.
    ///
    /// # Errors
    /// Every problem that was noted.
    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, Problems> {
        self.problems.check(value)
    }

    fn key_span(&self, key: &Key) -> Option<Range<usize>> {
        let mut table = &self.root;
        let mut span = None;
        for part in key.parts() {
            let Some((found, value)) = table.get_key_value(part) else {
                break;
            };
            span = Some(found.span());
            match value.get_ref().as_table() {
                Some(inner) => table = inner,
                None => break,
            }
        }
        span
    }
}

fn as_table_mut<'t, 'i>(value: &'t mut Value<'i>) -> Option<&'t mut DeTable<'i>> {
    match value.get_mut() {
        DeValue::Table(table) => Some(table),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => None,
    }
}

type Missing = (Key, Range<usize>, String);

fn fill(value: &mut Value<'_>, key: &Key, environment: &Environment, missing: &mut Vec<Missing>) {
    let span = value.span();
    match value.get_mut() {
        DeValue::String(text) => match interpolate(text, environment) {
            Ok(Cow::Borrowed(_)) => {}
            Ok(Cow::Owned(filled)) => *text = Cow::Owned(filled),
            Err(message) => missing.push((key.clone(), span, message)),
        },
        DeValue::Array(array) => {
            for element in array.iter_mut() {
                fill(element, key, environment, missing);
            }
        }
        DeValue::Table(table) => {
            for (name, value) in table.iter_mut() {
                fill(value, &key.child(name.get_ref()), environment, missing);
            }
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}

fn place(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before.get(line_start..).map_or(0, |s| s.chars().count()) + 1;
    Place {
        line: before.matches('\n').count() + 1,
        column,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, Problems> {
        let environment = Environment::fixed([("EVIL", "x\"\n[sinks.evil]\nkey = 1")]);
        let mut document = Document::parse("sinks.toml", text)?;
        let key = Key::of(["a"]);
        document.interpolate(&key, &environment);
        let value = document
            .get(&key)
            .map(|value| format!("{:?}", value.get_ref()));
        document.finish(value)
    }

    #[test]
    fn a_variable_is_only_ever_text_within_a_value() {
        // H32
        let mut document = Document::parse("f", "[a]\nb = \"${EVIL}\"\n\"${EVIL}\" = 1").unwrap();
        let environment = Environment::fixed([("EVIL", "x\"\n[sinks.evil]\nkey = 1")]);
        document.interpolate(&Key::of(["a"]), &environment);
        let value = document.get(&Key::of(["a", "b"])).unwrap();
        assert_eq!(value.get_ref().as_str(), Some("x\"\n[sinks.evil]\nkey = 1"));
        assert!(document.get(&Key::of(["a", "${EVIL}"])).is_some());
        assert_eq!(document.root().len(), 1);
    }

    #[test]
    fn a_missing_variable_is_a_problem_at_its_line() {
        let problems = filled("# é\n[a]\nb = [\"é\", \"${NO_SUCH}\"]\n").unwrap_err();
        let shown = problems.to_string();
        assert!(
            shown.starts_with("sinks.toml:3:11: a.b: the environment variable NO_SUCH is not set"),
            "{shown}"
        );
    }

    #[test]
    fn every_error_of_syntax_is_reported_and_no_line_repeated() {
        let problems = filled("url = hunter2\n[a\nb = 'hunter2").unwrap_err();
        let shown = problems.to_string();
        assert!(problems.iter().count() > 1, "{shown}");
        assert!(shown.contains("sinks.toml:1:7: "), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
