//! `sinks dead-letters show`: one in full, its payload included.

use std::io::{self, Write};

use clap::Args;
use outbox::DeadLetterRow;
use serde::Serialize;

use crate::cli::exit::{Failure, Status};
use crate::cli::source::Source;
use crate::cli::{database, table};

/// Show one in full, with its payload
#[derive(Args, Debug)]
pub(super) struct Show {
    /// Its id, as the list shows it
    id: i64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A dead letter as the JSON shows it.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    id: i64,
    sink: String,
    state: &'static str,
    state_changed_at: String,
    /// `txid.seq`.
    position: String,
    event_id: String,
    #[serde(rename = "type")]
    topic: String,
    code: String,
    error: String,
    attempts: i32,
    replays: i32,
    first_failed_at: String,
    dead_lettered_at: String,
    /// The text as it would have been sent, as a string: so no number loses a digit.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    /// Why the text is not what was published, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
}

impl From<DeadLetterRow> for Shown {
    fn from(row: DeadLetterRow) -> Self {
        Self {
            id: row.id,
            sink: row.sink,
            state: row.state.as_str(),
            state_changed_at: row.state_changed_at,
            position: row.position.to_string(),
            event_id: row.event_id,
            topic: row.topic,
            code: row.code,
            error: row.error,
            attempts: row.attempts,
            replays: row.replays,
            first_failed_at: row.first_failed_at,
            dead_lettered_at: row.dead_lettered_at,
            payload: row.payload,
            damage: row.damage,
        }
    }
}

impl Show {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let (_, database) = database::open(source, "sinks dead-letters").await?;
        let Some(found) = database.dead_letter(self.id).await? else {
            let message = format!(
                "there is no dead letter {}: `sinks dead-letters list` shows their ids",
                self.id
            );
            return Err(Failure::new(Status::Configuration, message));
        };
        let shown = Shown::from(found);
        if self.json {
            return table::json(out, &shown);
        }
        Ok(describe(out, &shown)?)
    }
}

fn describe(out: &mut impl Write, shown: &Shown) -> io::Result<()> {
    let count = |number: i32| number.to_string();
    for (name, value) in [
        ("id", shown.id.to_string()),
        ("sink", shown.sink.clone()),
        (
            "state",
            format!("{} since {}", shown.state, shown.state_changed_at),
        ),
        ("position", shown.position.clone()),
        ("event", shown.event_id.clone()),
        ("type", shown.topic.clone()),
        ("code", shown.code.clone()),
        ("error", shown.error.clone()),
        ("attempts", count(shown.attempts)),
        ("replays", count(shown.replays)),
        ("first failed", shown.first_failed_at.clone()),
        ("set aside", shown.dead_lettered_at.clone()),
        ("damage", shown.damage.clone().unwrap_or_default()),
    ] {
        if !value.is_empty() {
            writeln!(out, "{:13} {}", format!("{name}:"), table::one_line(&value))?;
        }
    }
    let payload = shown.payload.as_deref().unwrap_or_default();
    writeln!(out, "\n{}", table::one_line(payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::{DeadLetterState, Position};

    fn row() -> DeadLetterRow {
        DeadLetterRow {
            id: 5,
            sink: "a".to_owned(),
            position: Position::new(7, 9),
            event_id: "evt_1".to_owned(),
            topic: "order.paid".to_owned(),
            code: "TOO_LARGE".to_owned(),
            error: "line 1\nline 2 \u{1b}[31m".to_owned(),
            attempts: 1,
            first_failed_at: "2026-09-24T10:15:02.114Z".to_owned(),
            dead_lettered_at: "2026-09-24T10:15:02.120Z".to_owned(),
            state: DeadLetterState::Dead,
            state_changed_at: "2026-09-24T10:15:02.120Z".to_owned(),
            replays: 0,
            payload: Some(r#"{"n": 1.10}"#.to_owned()),
            damage: None,
        }
    }

    #[test]
    fn one_is_shown_with_its_payload_and_nothing_that_steers_a_terminal() {
        let mut out = Vec::new();
        describe(&mut out, &row().into()).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert!(shown.ends_with("\n\n{\"n\": 1.10}\n"), "{shown}");
        assert!(
            shown.contains("error:        line 1 line 2  [31m\n"),
            "{shown}"
        );
        assert!(!shown.contains("damage"), "{shown}");
    }

    #[test]
    fn in_json_the_payload_is_text_and_keeps_its_digits() {
        let json = serde_json::to_value(Shown::from(row())).unwrap();
        assert_eq!(json["payload"], r#"{"n": 1.10}"#);
        assert_eq!(json["type"], "order.paid");
        assert_eq!(json["position"], "7.9");
        assert!(json.get("damage").is_none());
    }
}
