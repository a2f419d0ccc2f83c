//! What `/status` shows: what `sinks status --json` shows, and what this process is doing.

use std::time::Duration;

use outbox::Position;
use serde::Serialize;

use crate::board::{Board, Call, NotReady, PageView, State};
use crate::report::Report;

/// The JSON as a whole. What the database would have to tell is absent if it did not.
#[derive(Debug, Serialize)]
pub(super) struct Status<'a> {
    worker: Worker<'a>,
    #[serde(flatten)]
    report: Option<&'a Report>,
}

/// This process.
#[derive(Debug, Serialize)]
struct Worker<'a> {
    version: &'static str,
    /// Its name in the leases.
    holder: &'a str,
    uptime_seconds: f64,
    stopping: bool,
    database: Database,
    not_ready: Vec<NotReady>,
    loops: Vec<Loop>,
}

#[derive(Debug, Serialize)]
struct Database {
    reachable: bool,
    /// How long ago it answered.
    answered_seconds: Option<f64>,
}

/// One sink's loop.
#[derive(Debug, Serialize)]
struct Loop {
    sink: String,
    kind: String,
    state: State,
    state_seconds: f64,
    lease_held: bool,
    attempts: u32,
    last_error_kind: Option<&'static str>,
    position: Option<String>,
    /// What it waits for that has a deadline.
    calls: Vec<Pending>,
}

#[derive(Debug, Serialize)]
struct Pending {
    call: Call,
    seconds: f64,
    deadline_seconds: f64,
}

impl<'a> Status<'a> {
    pub(super) fn of(
        board: &Board,
        holder: &'a str,
        stopping: bool,
        report: Option<&'a Report>,
    ) -> Self {
        let database = board.database();
        let loops = board.sinks().into_iter();
        Self {
            worker: Worker {
                version: env!("CARGO_PKG_VERSION"),
                holder,
                uptime_seconds: board.uptime().as_secs_f64(),
                stopping,
                database: Database {
                    reachable: database.reachable,
                    answered_seconds: database.answered.as_ref().map(Duration::as_secs_f64),
                },
                not_ready: board.not_ready(),
                loops: loops.map(|(sink, page)| Loop::of(sink, page)).collect(),
            },
            report,
        }
    }
}

impl Loop {
    fn of(sink: String, page: PageView) -> Self {
        let calls = page.calls.iter().map(|it| Pending {
            call: it.call,
            seconds: it.lasts.as_secs_f64(),
            deadline_seconds: it.limit.as_secs_f64(),
        });
        Self {
            sink,
            state: page.state,
            state_seconds: page.state_for.as_secs_f64(),
            lease_held: page.state.holds_lease(),
            attempts: page.attempts,
            last_error_kind: page.last_error_kind,
            position: page.position.as_ref().map(Position::to_string),
            calls: calls.collect(),
            kind: page.kind,
        }
    }
}
