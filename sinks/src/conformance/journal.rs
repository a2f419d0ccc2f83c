//! What no error may hold, and which errors held it.
//!
//! Every text that a sink gives away passes here. Only those that leak are kept.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use crate::{Refusal, SinkError};

/// How many leaks are worth keeping.
const KEPT: usize = 8;

/// Looks through the texts of errors and refusals.
#[derive(Debug)]
pub(super) struct Journal {
    /// What must not be shown, and what it is called instead.
    hidden: Vec<(String, &'static str)>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    check: &'static str,
    texts: usize,
    leaks: Vec<String>,
}

impl Journal {
    pub(super) fn new(secrets: Vec<String>, canary: &str) -> Self {
        let secrets = secrets.into_iter().filter(|secret| !secret.is_empty());
        let mut hidden: Vec<_> = secrets.map(|secret| (secret, "[secret]")).collect();
        hidden.push((canary.to_owned(), "[payload]"));
        Self {
            hidden,
            seen: Mutex::default(),
        }
    }

    /// Notes in which check the next texts are seen.
    pub(super) fn begin(&self, check: &'static str) {
        self.with(|seen| seen.check = check);
    }

    /// Looks at everything that an error shows.
    pub(super) fn error(&self, call: &str, error: &SinkError) {
        let advice = error.advice().unwrap_or_default();
        let texts = [
            error.to_string(),
            format!("{error:?}"),
            error.chain(),
            advice.to_owned(),
        ];
        self.texts(&format!("the error of `{call}`"), &texts);
    }

    /// Looks at everything that a refusal shows.
    pub(super) fn refusal(&self, refusal: &Refusal) {
        self.texts("a refusal", &[refusal.to_string(), format!("{refusal:?}")]);
    }

    fn texts(&self, what: &str, texts: &[String]) {
        self.with(|seen| seen.texts += 1);
        let leak = texts
            .iter()
            .find(|text| self.hidden.iter().any(|(h, _)| text.contains(h.as_str())));
        let Some(leak) = leak else { return };
        let shown = self.redact(leak).into_owned();
        self.with(|seen| {
            if seen.leaks.len() < KEPT {
                let check = seen.check;
                seen.leaks.push(format!("in `{check}`, {what}: {shown}"));
            }
        });
    }

    /// The text without what must not be shown.
    pub(super) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        for (hidden, name) in &self.hidden {
            if shown.contains(hidden.as_str()) {
                shown = Cow::Owned(shown.replace(hidden.as_str(), name));
            }
        }
        shown
    }

    /// How many errors and refusals were looked at, and which of them leaked.
    pub(super) fn leaks(&self) -> (usize, Vec<String>) {
        self.with(|seen| (seen.texts, seen.leaks.clone()))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        change(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_is_found_wherever_it_hides_and_is_not_shown() {
        let journal = Journal::new(vec!["hunter2".to_owned(), String::new()], "canary7");
        journal.begin("a check");
        journal.error("open", &SinkError::failed("fine"));
        journal.error("open", &SinkError::misconfigured("x", "try hunter2"));
        let cause = std::io::Error::other("the row canary7");
        journal.error("deliver", &SinkError::failed("x").with_source(cause));
        journal.refusal(&Refusal::new("X", "canary7"));
        let (texts, leaks) = journal.leaks();
        assert_eq!((texts, leaks.len()), (4, 3));
        assert!(leaks[0].contains("in `a check`, the error of `open`"));
        assert!(!leaks.concat().contains("hunter2") && !leaks.concat().contains("canary7"));
    }
}
