//! A sink as the table and the JSON show it.

use outbox::{CursorStatus, DeadLetterCounts, MAX_COUNTED_LAG, Pause, Stage, Suspect};
use serde::Serialize;

use crate::cli::{pause, table};

/// One sink.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) sink: String,
    pub(super) state: State,
    /// `txid.seq`: everything up to here is done with.
    position: Option<String>,
    /// Events that are readable and not done with; counting stops at `MAX_COUNTED_LAG`.
    lag_events: Option<u64>,
    lag_events_is_minimum: bool,
    /// The age of the first of them.
    lag_seconds: Option<f64>,
    holder: Option<String>,
    attempts: u32,
    retry_in_seconds: Option<f64>,
    last_error_kind: Option<String>,
    last_error: Option<String>,
    paused: Option<Paused>,
    /// The event that holds the sink up.
    suspect: Option<Suspected>,
    /// Where an operator sent it, until its worker obeys.
    seek: Option<String>,
    dead_letters: DeadLetters,
    /// What the table says of a pause.
    #[serde(skip)]
    pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// Configured, and no worker has opened it yet.
    NeverRun,
    /// A cursor whose sink is configured nowhere that we can see.
    NotConfigured,
    /// An operator or the fuse has paused it.
    Paused,
    /// Its deliveries fail; it waits between them.
    BackingOff,
    /// No worker has it.
    Free,
    /// Held, with events before it.
    Delivering,
    /// Held, with nothing to do.
    UpToDate,
}

#[derive(Debug, Serialize)]
struct Paused {
    by: String,
    reason: Option<String>,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Suspected {
    position: String,
    /// How often in a row it was refused alone.
    attempts: u32,
    /// `alone`: it is tried alone. `comparing`: another event is tried. `probing`: the next
    /// event of its key is tried. `confirming`: it gets a last attempt.
    stage: &'static str,
    code: String,
    error: String,
    seconds: Option<f64>,
}

#[derive(Debug, Default, Serialize)]
struct DeadLetters {
    /// Counting each of these stops at `MAX_COUNTED_LAG`.
    dead: u64,
    replaying: u64,
    replayed: u64,
    discarded: u64,
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

    fn of(cursor: &CursorStatus, configured: bool) -> Self {
        if !configured {
            Self::NotConfigured
        } else if cursor.pause.is_some() {
            Self::Paused
        } else if cursor.attempts > 0 {
            Self::BackingOff
        } else if cursor.holder.is_none() {
            Self::Free
        } else if cursor.lag > 0 {
            Self::Delivering
        } else {
            Self::UpToDate
        }
    }
}

impl Row {
    /// A sink without a cursor.
    pub(super) fn never_run(name: &str) -> Self {
        let unknown = CursorStatus {
            sink: name.to_owned(),
            ..CursorStatus::default()
        };
        Self {
            state: State::NeverRun,
            position: None,
            lag_events: None,
            ..Self::of(unknown, true)
        }
    }

    /// A sink as its cursor tells.
    pub(super) fn of(cursor: CursorStatus, configured: bool) -> Self {
        let (state, age) = (State::of(&cursor, configured), cursor.suspect_age);
        Self {
            sink: cursor.sink,
            state,
            position: Some(cursor.position.to_string()),
            lag_events: Some(cursor.lag),
            lag_events_is_minimum: cursor.lag >= MAX_COUNTED_LAG,
            lag_seconds: cursor.lag_age.map(|age| age.as_secs_f64()),
            holder: cursor.holder,
            attempts: cursor.attempts,
            retry_in_seconds: cursor.retry_in.map(|wait| wait.as_secs_f64()),
            last_error_kind: cursor.last_error_kind,
            last_error: cursor.last_error,
            paused: cursor.pause.as_ref().map(|pause| Paused {
                by: pause.by.clone(),
                reason: pause.reason.clone(),
                seconds: pause.age.as_secs_f64(),
            }),
            suspect: cursor.suspect.map(|suspect| Suspected {
                seconds: age.map(|age| age.as_secs_f64()),
                ..suspected(suspect)
            }),
            seek: cursor.seek.map(|seek| seek.to_string()),
            dead_letters: counts(cursor.dead_letters),
            pause: cursor.pause,
        }
    }

    /// The columns of the table.
    pub(super) const HEAD: [&str; 10] = [
        "SINK", "STATE", "POSITION", "LAG", "AGE", "HOLDER", "ATTEMPTS", "RETRY IN", "DEAD",
        "REASON",
    ];

    pub(super) fn cells(&self) -> [String; 10] {
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

fn suspected(suspect: Suspect) -> Suspected {
    Suspected {
        position: suspect.position.to_string(),
        attempts: suspect.attempts,
        stage: match suspect.stage {
            Stage::Alone => "alone",
            Stage::Comparing => "comparing",
            Stage::Probing(_) => "probing",
            Stage::Confirming => "confirming",
        },
        code: suspect.code,
        error: suspect.error,
        seconds: None,
    }
}

const fn counts(counts: DeadLetterCounts) -> DeadLetters {
    let DeadLetterCounts {
        dead,
        replaying,
        replayed,
        discarded,
    } = counts;
    DeadLetters {
        dead,
        replaying,
        replayed,
        discarded,
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
    use outbox::Position;
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
