//! Compares what arrived in the output file with what was published.
//!
//! In an undisturbed run at-least-once comes to exactly once, so here a repeated event
//! is a problem, like a missing one. Reads the file line by line; judges no payload.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use outbox::Position;
use serde::Deserialize;

use super::ledger::{CompactId, Published};

/// So many examples are shown of each kind of problem; all are counted.
const EXAMPLES: usize = 3;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of events whose transaction committed.
    pub published: u64,
    /// Number of distinct events in the output.
    pub delivered: u64,
    /// Number of dead letters.
    pub dead_letters: u64,
    /// Everything that is not as it should be, as sentences. Empty if all is well.
    pub problems: Vec<String>,
}

/// The last line of `sinks dev`.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "published {}, delivered {}, dead letters {}",
            self.published, self.delivered, self.dead_letters
        )
    }
}

/// What can be wrong with the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Missing,
    Unreadable,
    Repeated,
    OutOfOrder,
    RolledBack,
    Stranger,
}

impl Kind {
    fn describe(self) -> &'static str {
        match self {
            Self::Missing => "published, but not delivered",
            Self::Unreadable => "not an event in the native format",
            Self::Repeated => "delivered more than once",
            Self::OutOfOrder => "delivered after an event of a greater sequence",
            Self::RolledBack => "delivered, though its transaction was rolled back",
            Self::Stranger => "delivered, but not published by this run",
        }
    }
}

/// Problems by kind, with a few examples of each.
#[derive(Debug, Default)]
struct Findings(HashMap<Kind, (u64, Vec<String>)>);

impl Findings {
    fn add(&mut self, kind: Kind, example: impl FnOnce() -> String) {
        let (count, examples) = self.0.entry(kind).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(example());
        }
    }

    fn into_sentences(self) -> Vec<String> {
        let mut findings: Vec<_> = self.0.into_iter().collect();
        findings.sort_by_key(|(kind, _)| *kind);
        findings
            .into_iter()
            .map(|(kind, (count, examples))| {
                let more = if count > EXAMPLES as u64 { ", …" } else { "" };
                format!(
                    "{count} × {}: {}{more}",
                    kind.describe(),
                    examples.join(", ")
                )
            })
            .collect()
    }
}

/// The members of a line that are looked at.
#[derive(Deserialize)]
struct Line {
    id: String,
    sequence: String,
}

/// Reads the output of a file sink and compares.
///
/// # Errors
/// If the file can't be read. A missing file is an empty one, since a sink that never
/// had anything to deliver makes none.
pub(super) fn compare(
    output: &Path,
    published: &Published,
    dead_letters: u64,
) -> io::Result<Summary> {
    let mut findings = Findings::default();
    let delivered = match File::open(output) {
        Ok(file) => read(BufReader::new(file), published, &mut findings)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => HashSet::new(),
        Err(error) => return Err(error),
    };
    for id in published.committed.difference(&delivered) {
        findings.add(Kind::Missing, || id.to_string());
    }
    let settled = published.unknown.intersection(&delivered).count();
    Ok(Summary {
        published: (published.committed.len() + settled) as u64,
        delivered: delivered.len() as u64,
        dead_letters,
        problems: findings.into_sentences(),
    })
}

fn read(
    lines: impl BufRead,
    published: &Published,
    findings: &mut Findings,
) -> io::Result<HashSet<CompactId>> {
    let mut delivered = HashSet::new();
    let mut last = Position::BEGINNING;
    for (number, line) in lines.split(b'\n').enumerate() {
        let Some((id, position)) = parse(&line?) else {
            findings.add(Kind::Unreadable, || format!("line {}", number + 1));
            continue;
        };
        if !delivered.insert(id) {
            findings.add(Kind::Repeated, || format!("{id} (line {})", number + 1));
            continue;
        }
        if position <= last {
            findings.add(Kind::OutOfOrder, || {
                format!("{id} (line {}: {position} after {last})", number + 1)
            });
        }
        last = last.max(position);
        if published.rolled_back.contains(&id) {
            findings.add(Kind::RolledBack, || id.to_string());
        } else if !published.committed.contains(&id) && !published.unknown.contains(&id) {
            findings.add(Kind::Stranger, || id.to_string());
        }
    }
    Ok(delivered)
}

/// Whether a line looks like one that a file sink wrote in the native format.
pub(super) fn is_event(line: &[u8]) -> bool {
    parse(line).is_some()
}

fn parse(line: &[u8]) -> Option<(CompactId, Position)> {
    let line: Line = serde_json::from_slice(line).ok()?;
    Some((CompactId::parse(&line.id)?, line.sequence.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn id(number: u32) -> CompactId {
        CompactId::parse(&format!("evt_01k5y3v0m6y8x7w5t4s3{number:06}")).unwrap()
    }

    fn published(numbers: &[u32]) -> Published {
        Published {
            committed: numbers.iter().copied().map(id).collect(),
            rolled_back: [id(900)].into(),
            unknown: [id(800)].into(),
        }
    }

    fn compared(lines: &[(u32, &str)], published: &Published) -> Summary {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = lines
            .iter()
            .fold(String::new(), |mut text, (number, sequence)| {
                let id = id(*number);
                writeln!(
                    text,
                    r#"{{"id":"{id}","data":{{"id":1}},"sequence":"{sequence}"}}"#
                )
                .unwrap();
                text
            });
        std::fs::write(file.path(), text).unwrap();
        compare(file.path(), published, 0).unwrap()
    }

    fn only_problem(lines: &[(u32, &str)], numbers: &[u32]) -> String {
        let problems = compared(lines, &published(numbers)).problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    }

    #[test]
    fn an_output_that_is_complete_and_in_order_has_no_problems() {
        let summary = compared(
            &[(1, "5.9"), (2, "5.10"), (3, "40.1")],
            &published(&[1, 2, 3]),
        );
        assert_eq!(summary.problems, Vec::<String>::new());
        assert_eq!(
            summary.to_string(),
            "published 3, delivered 3, dead letters 0"
        );
    }

    #[test]
    fn a_missing_event_is_named() {
        let problem = only_problem(&[(1, "1.1")], &[1, 2]);
        assert!(
            problem.contains("not delivered") && problem.contains(&id(2).to_string()),
            "{problem}"
        );
    }

    #[test]
    fn a_repeated_event_is_named_and_counted_once() {
        let problem = only_problem(&[(1, "1.1"), (2, "1.2"), (1, "1.1")], &[1, 2]);
        assert!(
            problem.contains("more than once") && problem.contains("line 3"),
            "{problem}"
        );
    }

    #[test]
    fn events_out_of_order_are_named_with_their_line() {
        let problem = only_problem(&[(1, "9.1"), (2, "10.1"), (3, "9.2")], &[1, 2, 3]);
        assert!(problem.contains("line 3: 9.2 after 10.1"), "{problem}");
        let problem = only_problem(&[(1, "9.1"), (2, "9.1")], &[1, 2]);
        assert!(problem.contains("line 2"), "{problem}");
    }

    #[test]
    fn an_event_of_a_rolled_back_transaction_and_one_of_nobody_are_told_apart() {
        let problem = only_problem(&[(900, "1.1")], &[]);
        assert!(problem.contains("rolled back"), "{problem}");
        let problem = only_problem(&[(7, "1.1")], &[]);
        assert!(problem.contains("not published"), "{problem}");
    }

    #[test]
    fn a_commit_whose_outcome_nobody_knows_may_go_either_way() {
        let without = compared(&[(1, "1.1")], &published(&[1]));
        assert_eq!((without.published, without.problems.len()), (1, 0));
        let with = compared(&[(1, "1.1"), (800, "1.2")], &published(&[1]));
        assert_eq!(
            (with.published, with.delivered, with.problems.len()),
            (2, 2, 0)
        );
    }

    #[test]
    fn a_torn_line_is_a_problem_and_a_missing_file_is_an_empty_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"id":"evt_01k5"#).unwrap();
        let problems = compare(file.path(), &published(&[]), 0).unwrap().problems;
        assert!(
            problems.iter().any(|problem| problem.contains("line 1")),
            "{problems:?}"
        );

        let nowhere = file.path().join("missing");
        assert!(
            compare(&nowhere, &published(&[]), 0).is_err(),
            "a file is no folder"
        );
        let nowhere = file.path().with_file_name("surely-not-there.ndjson");
        assert_eq!(
            compare(&nowhere, &published(&[]), 0).unwrap(),
            Summary::default()
        );
    }

    #[test]
    fn many_problems_are_counted_and_a_few_shown() {
        let numbers: Vec<u32> = (1..=50).collect();
        let problem = only_problem(&[], &numbers);
        assert!(
            problem.starts_with("50 × ") && problem.matches("evt_").count() == EXAMPLES,
            "{problem}"
        );
    }
}
