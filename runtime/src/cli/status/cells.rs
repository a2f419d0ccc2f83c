//! A sink's row of the table, for people.

use outbox::MAX_COUNTED_LAG;

use crate::cli::{pause, table};
use crate::report::{DeadLetters, Row, State, Suspected};

impl Row {
    /// The columns of the table.
    pub(in crate::cli) const HEAD: [&str; 10] = [
        "SINK", "STATE", "POSITION", "LAG", "AGE", "HOLDER", "ATTEMPTS", "RETRY IN", "DEAD",
        "REASON",
    ];

    pub(in crate::cli) fn cells(&self) -> [String; 10] {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let lag = self
            .lag_events
            .map(|events| match self.lag_events_is_minimum {
                true => format!("{events}+"),
                false => events.to_string(),
            });
        [
            self.sink.clone(),
            self.state.as_str().to_owned(),
            text(&self.position),
            text(&lag),
            text(&self.lag_seconds.map(span)),
            text(&self.holder),
            self.attempts.to_string(),
            text(&self.retry_in_seconds.map(span)),
            self.dead_letters.cell(),
            self.reason(),
        ]
    }

    /// What a person should know, in the order in which it matters.
    fn reason(&self) -> String {
        let seek = self.seek.as_ref().map(|to| format!("to go on from {to}"));
        let suspect = self.suspect.as_ref().map(Suspected::described);
        let error = match (&self.last_error_kind, &self.last_error) {
            (Some(kind), Some(error)) => Some(format!("{kind}: {error}")),
            (_, error) => error.clone(),
        };
        let told = [
            self.pause.as_ref().map(pause::described),
            seek,
            suspect,
            error,
        ];
        let told: Vec<_> = told.into_iter().flatten().collect();
        if told.is_empty() {
            return "-".to_owned();
        }
        table::one_line(&told.join("; "))
    }
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::NeverRun => "never run",
            Self::NotConfigured => "not configured",
            Self::Paused => "paused",
            Self::BackingOff => "backing off",
            Self::Free => "free",
            Self::Delivering => "delivering",
            Self::UpToDate => "up to date",
        }
    }
}

impl Suspected {
    fn described(&self) -> String {
        let (position, attempts, code) = (&self.position, self.attempts, &self.code);
        let so_far = match self.stage {
            "alone" => "it is tried again",
            "comparing" => "others are tried for comparison",
            "probing" => "its successor is tried",
            _ => "it gets a last attempt",
        };
        format!("event {position} was refused alone {attempts} times ({code}), {so_far}")
    }
}

impl DeadLetters {
    fn cell(&self) -> String {
        let shown = |counted: u64| match counted {
            MAX_COUNTED_LAG.. => format!("{counted}+"),
            _ => counted.to_string(),
        };
        let dead = shown(self.dead);
        match self.replaying {
            0 => dead,
            replaying => format!("{dead} (+{} replaying)", shown(replaying)),
        }
    }
}

fn span(seconds: f64) -> String {
    table::span(std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::{CursorStatus, DeadLetterCounts, Pause, Position, Stage, Suspect};
    use std::time::Duration;

    fn cursor() -> CursorStatus {
        CursorStatus {
            sink: "a".to_owned(),
            position: Position::new(7, 9),
            holder: Some("w".to_owned()),
            lag: MAX_COUNTED_LAG,
            lag_age: Some(Duration::from_millis(90_500)),
            ..CursorStatus::default()
        }
    }

    fn failing() -> CursorStatus {
        CursorStatus {
            holder: None,
            attempts: 3,
            retry_in: Some(Duration::from_secs(4)),
            last_error_kind: Some("unavailable".to_owned()),
            last_error: Some("connect\nto it".to_owned()),
            ..cursor()
        }
    }

    #[test]
    fn the_state_tells_what_matters_most() {
        let free = CursorStatus {
            holder: None,
            ..cursor()
        };
        let error = "unavailable: connect to it";
        for (cursor, expected) in [
            (cursor(), ["delivering", "w", "0", "-", "0", "-"]),
            (free, ["free", "-", "0", "-", "0", "-"]),
            (failing(), ["backing off", "-", "3", "4s", "0", error]),
        ] {
            let [_, state, position, lag, age, rest @ ..] = Row::of(cursor, true).cells();
            assert_eq!([&*position, &*lag, &*age], ["7.9", "10000+", "1m 30s"]);
            assert_eq!([&[state], rest.as_slice()].concat(), expected);
        }
        let never = Row::never_run("b").cells();
        assert_eq!(
            never,
            ["b", "never run", "-", "-", "-", "-", "0", "-", "0", "-"]
        );
    }

    #[test]
    fn whatever_stands_in_the_way_is_told() {
        let stuck = CursorStatus {
            pause: Some(Pause {
                age: Duration::from_secs(300),
                by: "jo@desk".to_owned(),
                reason: Some("rebuild".to_owned()),
            }),
            suspect: Some(Suspect {
                position: Position::new(7, 10),
                attempts: 5,
                stage: Stage::Comparing,
                code: "TOO_GREEN".to_owned(),
                error: "no".to_owned(),
            }),
            suspect_age: Some(Duration::from_secs(9)),
            seek: Some(Position::new(5, 1)),
            dead_letters: DeadLetterCounts {
                dead: 2,
                replaying: 1,
                replayed: 4,
                discarded: 0,
            },
            ..failing()
        };
        let row = Row::of(stuck, true);
        let [_, state, .., dead, reason] = row.cells();
        assert_eq!(
            (state.as_str(), dead.as_str()),
            ("paused", "2 (+1 replaying)")
        );
        assert_eq!(
            reason,
            "paused by jo@desk 5m ago: rebuild; to go on from 5.1; event 7.10 was refused alone 5 \
             times (TOO_GREEN), others are tried for comparison; unavailable: connect to it"
        );
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["state"], "paused");
        assert_eq!(json["paused"]["seconds"], 300.0);
        assert_eq!(json["suspect"]["stage"], "comparing");
        assert_eq!(json["suspect"]["seconds"], 9.0);
        assert_eq!(json["seek"], "5.1");
        assert_eq!(json["dead_letters"]["replayed"], 4);
    }

    #[test]
    fn dead_letters_that_were_not_all_counted_have_a_plus() {
        let cell = |dead, replaying| {
            let letters = DeadLetters {
                dead,
                replaying,
                ..DeadLetters::default()
            };
            letters.cell()
        };
        assert_eq!(cell(MAX_COUNTED_LAG - 1, 0), "9999");
        assert_eq!(cell(MAX_COUNTED_LAG, 0), "10000+");
        assert_eq!(cell(3, MAX_COUNTED_LAG), "3 (+10000+ replaying)");
    }
}
