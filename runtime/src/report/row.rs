//! A sink as the JSON shows it, and as the table is made from.

use outbox::{CursorStatus, DeadLetterCounts, MAX_COUNTED_LAG, Pause, Stage, Suspect};
use serde::Serialize;

/// One sink.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) sink: String,
    pub(crate) state: State,
    /// `txid.seq`: everything up to here is done with.
    pub(crate) position: Option<String>,
    /// Events that are readable and not done with; counting stops at `MAX_COUNTED_LAG`.
    pub(crate) lag_events: Option<u64>,
    pub(crate) lag_events_is_minimum: bool,
    /// The age of the first of them.
    pub(crate) lag_seconds: Option<f64>,
    pub(crate) holder: Option<String>,
    pub(crate) attempts: u32,
    pub(crate) retry_in_seconds: Option<f64>,
    pub(crate) last_error_kind: Option<String>,
    pub(crate) last_error: Option<String>,
    pub(crate) paused: Option<Paused>,
    /// The event that holds the sink up.
    pub(crate) suspect: Option<Suspected>,
    /// Where an operator sent it, until its worker obeys.
    pub(crate) seek: Option<String>,
    pub(crate) dead_letters: DeadLetters,
    /// What the table says of a pause.
    #[serde(skip)]
    pub(crate) pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
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
pub(crate) struct Paused {
    pub(crate) by: String,
    pub(crate) reason: Option<String>,
    pub(crate) seconds: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Suspected {
    pub(crate) position: String,
    /// How often in a row it was refused alone.
    pub(crate) attempts: u32,
    /// `alone`: it is tried alone. `comparing`: another event is tried. `probing`: the next
    /// event of its key is tried. `confirming`: it gets a last attempt.
    pub(crate) stage: &'static str,
    pub(crate) code: String,
    pub(crate) error: String,
    pub(crate) seconds: Option<f64>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct DeadLetters {
    /// Counting each of these stops at `MAX_COUNTED_LAG`.
    pub(crate) dead: u64,
    pub(crate) replaying: u64,
    pub(crate) replayed: u64,
    pub(crate) discarded: u64,
}

impl State {
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
    pub(crate) fn never_run(name: &str) -> Self {
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
    pub(crate) fn of(cursor: CursorStatus, configured: bool) -> Self {
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
