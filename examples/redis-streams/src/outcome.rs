//! What Redis answered to a batch, event by event. Pure.
//!
//! The invariant: within a stream nothing counts as delivered after an entry that is not (OB-4). It comes
//! again behind its predecessor, even if Redis took it.

use std::collections::HashSet;

use outbox_sinks::{Refusal, Verdict};
use redis::Value;

use crate::classify::{Class, Failure, Trouble, classify};

/// What became of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// One for each entry.
    pub(crate) verdicts: Vec<Verdict>,
    /// The first failure that is no single stream's.
    pub(crate) trouble: Option<Trouble>,
}

/// Reads the answers to `MULTI`, an `XADD` for each of these streams, and `EXEC`. With `one_stream`
/// all events go to one by configuration: then its fault is everybody's.
pub(crate) fn read(streams: &[&str], one_stream: bool, mut answers: Vec<Value>) -> Outcome {
    let executed = answers.pop();
    // An error while commands are queued, such as a full memory, makes EXEC do nothing.
    let queued = answers.iter().find_map(trouble_in);
    let items = match (queued, executed) {
        (Some(trouble), _) => Err(trouble),
        (None, Some(Value::Array(items))) if items.len() == streams.len() => Ok(items),
        (None, executed) => Err(executed
            .as_ref()
            .and_then(trouble_in)
            .unwrap_or_else(|| Failure::Garbled.into())),
    };
    match items {
        Ok(items) => judge(streams, one_stream, &items),
        Err(trouble) => Outcome {
            verdicts: vec![Verdict::Unconfirmed; streams.len()],
            trouble: Some(trouble),
        },
    }
}

fn judge(streams: &[&str], one_stream: bool, items: &[Value]) -> Outcome {
    let mut trouble = None;
    let mut failed = HashSet::new();
    let mut judge = |stream: &str, item: &Value| {
        if failed.contains(stream) {
            return Verdict::Unconfirmed;
        }
        let Some(found) = trouble_in(item) else {
            return Verdict::Delivered;
        };
        failed.insert(stream.to_owned());
        match classify(found.failure) {
            (Class::Stream(code), advice) if !one_stream => {
                Verdict::Refused(Refusal::new(code, reason(&found, advice)))
            }
            (Class::Stream(_) | Class::Batch(_), _) => {
                trouble.get_or_insert(found);
                Verdict::Unconfirmed
            }
        }
    };
    let verdicts = streams
        .iter()
        .zip(items)
        .map(|(stream, item)| judge(stream, item))
        .collect();
    Outcome { verdicts, trouble }
}

fn trouble_in(answer: &Value) -> Option<Trouble> {
    if let Value::ServerError(error) = answer {
        return Some(Trouble::from(error));
    }
    // `OK`, `QUEUED`, or an entry's id.
    let fine = matches!(
        answer,
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay
    );
    (!fine).then(|| Failure::Garbled.into())
}

fn reason(found: &Trouble, advice: &str) -> String {
    let told = found.told.as_deref().unwrap_or("the stream takes no entry");
    format!("{told}: {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers as the server writes them, with a slash between two and a tilde for a line's end.
    fn answers(lines: &str) -> Vec<Value> {
        let answer = |line: &str| redis::parse_redis_value(line.replace('~', "\r\n").as_bytes());
        lines.split('/').map(|line| answer(line).unwrap()).collect()
    }

    fn codes(outcome: &Outcome) -> Vec<&str> {
        let code = |verdict| match verdict {
            &Verdict::Delivered => "delivered",
            Verdict::Refused(refusal) => refusal.code(),
            Verdict::Unconfirmed => "unconfirmed",
            Verdict::Undeliverable(_) => "undeliverable",
            other => panic!("{other:?}"),
        };
        outcome.verdicts.iter().map(code).collect()
    }

    const WRONG: &str = "-WRONGTYPE Operation against a key~";

    #[test]
    fn a_stream_that_takes_nothing_is_refused_once_and_holds_back_its_followers_alone() {
        let items = format!("+OK~/+QUEUED~/+QUEUED~/+QUEUED~/+QUEUED~/*4~+1-1~{WRONG}+1-2~{WRONG}");
        let outcome = read(&["a", "b", "a", "b"], false, answers(&items));
        let expected = ["delivered", "WRONG_TYPE", "delivered", "unconfirmed"];
        assert_eq!(codes(&outcome), expected);
        assert_eq!(outcome.trouble, None);
    }

    #[test]
    fn where_there_is_one_stream_its_fault_blames_no_event() {
        let outcome = read(&["a"], true, answers(&format!("+OK~/+QUEUED~/*1~{WRONG}")));
        assert_eq!(codes(&outcome), ["unconfirmed"]);
        assert_eq!(outcome.trouble.unwrap().failure, Failure::WrongType);
    }

    #[test]
    fn what_follows_a_failure_within_its_stream_is_not_delivered_even_if_it_was_taken() {
        let items = "+OK~/+QUEUED~/+QUEUED~/+QUEUED~/*3~-NOPERM no~+1-1~+1-2~";
        let outcome = read(&["a", "a", "b"], false, answers(items));
        assert_eq!(codes(&outcome), ["unconfirmed", "unconfirmed", "delivered"]);
        assert_eq!(outcome.trouble.unwrap().failure, Failure::Forbidden);
    }

    #[test]
    fn an_aborted_transaction_blames_nobody_and_tells_the_reason() {
        for (lines, expected) in [
            (
                "+OK~/-OOM full~/+QUEUED~/-EXECABORT x~",
                Failure::OutOfMemory,
            ),
            (
                "+OK~/+QUEUED~/+QUEUED~/-EXECABORT Transaction discarded because of: MISCONF disk~",
                Failure::CannotPersist,
            ),
            ("+OK~/+QUEUED~/+QUEUED~/-EXECABORT x~", Failure::Aborted),
            ("+OK~/+QUEUED~/+QUEUED~/*1~+1-1~", Failure::Garbled),
            ("+OK~/+QUEUED~/+QUEUED~/$-1~", Failure::Garbled),
            (
                "-NOAUTH x~/-NOAUTH x~/-NOAUTH x~/-ERR EXEC without MULTI~",
                Failure::Login,
            ),
        ] {
            let outcome = read(&["a", "b"], false, answers(lines));
            assert_eq!(codes(&outcome), ["unconfirmed"; 2], "{lines}");
            assert_eq!(outcome.trouble.unwrap().failure, expected, "{lines}");
        }
    }
}
