//! What must hold before any figure counts: every event arrived, in order within its key.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Takes what arrived, in the destination's order, and judges it.
#[derive(Debug)]
pub(super) struct Gate {
    seen: Vec<bool>,
    arrived: usize,
    duplicates: u64,
    /// The last number of each key, counting first arrivals only.
    last: HashMap<String, usize>,
    digest: u64,
}

/// What passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// How many events came more than once, each time counted.
    pub(super) duplicates: u64,
    /// Of all bytes of all first arrivals, whatever their order: the same bytes give the same.
    pub(super) digest: u64,
}

#[derive(Deserialize)]
struct Payload<'a> {
    subject: &'a str,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    n: usize,
}

impl Gate {
    /// For the events 1 to `events`.
    pub(super) fn new(events: u32) -> Self {
        let events = usize::try_from(events).unwrap_or(usize::MAX);
        Self {
            seen: vec![false; events],
            arrived: 0,
            duplicates: 0,
            last: HashMap::new(),
            digest: 0,
        }
    }

    /// Takes an event that came as `payload`, under `key` if the destination has keys, with
    /// whatever else is stored beside it.
    pub(super) fn take(&mut self, key: Option<&[u8]>, payload: &[u8], beside: &[u8]) -> Result<()> {
        let event: Payload<'_> = serde_json::from_slice(payload).context("read what arrived")?;
        let (subject, n) = (event.subject, event.data.n);
        ensure!(
            key.is_none_or(|key| key == subject.as_bytes()),
            "event {n} came under another key than {subject}"
        );
        let seen = n.checked_sub(1).and_then(|index| self.seen.get_mut(index));
        let seen = seen.with_context(|| format!("nobody published event {n}"))?;
        if std::mem::replace(seen, true) {
            self.duplicates += 1;
            return Ok(());
        }
        self.arrived += 1;
        let mut hasher = DefaultHasher::new();
        (key, payload, beside).hash(&mut hasher);
        self.digest = self.digest.wrapping_add(hasher.finish());
        match self.last.get_mut(subject) {
            Some(last) => {
                ensure!(*last < n, "{subject}: event {n} came after event {last}");
                *last = n;
            }
            None => {
                self.last.insert(subject.to_owned(), n);
            }
        }
        Ok(())
    }

    /// The verdict.
    pub(super) fn judge(self) -> Result<Passed> {
        let expected = self.seen.len();
        let missing = self
            .seen
            .iter()
            .position(|seen| !seen)
            .map(|index| index + 1);
        ensure!(
            missing.is_none(),
            "{} of {expected} events arrived; the first that is missing is {}",
            self.arrived,
            missing.unwrap_or_default()
        );
        Ok(Passed {
            duplicates: self.duplicates,
            digest: self.digest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(events: &[(&str, usize)]) -> Result<Passed> {
        let mut gate = Gate::new(3);
        for (subject, n) in events {
            let payload = format!(r#"{{"id":"e","subject":"{subject}","data":{{"n":{n}}}}}"#);
            gate.take(Some(subject.as_bytes()), payload.as_bytes(), b"")?;
        }
        gate.judge()
    }

    #[test]
    fn everything_in_order_within_its_key_passes() {
        let passed = judged(&[("b", 2), ("a", 1), ("a", 3)]).unwrap();
        let other_order = judged(&[("a", 1), ("a", 3), ("b", 2)]).unwrap();
        assert_eq!(passed, other_order);
    }

    #[test]
    fn a_repetition_passes_and_is_counted() {
        let passed = judged(&[("a", 1), ("a", 2), ("a", 1), ("a", 2), ("a", 3)]).unwrap();
        assert_eq!(passed.duplicates, 2);
    }

    #[test]
    fn what_is_missing_foreign_or_out_of_order_does_not_pass() {
        for (events, said) in [
            (vec![("a", 1), ("a", 3)], "missing is 2"),
            (vec![("a", 1), ("a", 4)], "nobody published event 4"),
            (vec![("a", 0)], "nobody published event 0"),
            (
                vec![("a", 2), ("a", 1), ("a", 3)],
                "event 1 came after event 2",
            ),
        ] {
            let error = judged(&events).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
