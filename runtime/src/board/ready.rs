//! Whether the process is ready, derived from what it does and not from a timer.
//!
//! A sink that backs off, is paused or waits for its lease does so knowingly, and so does
//! one that a person must look at: starting the process anew would not help any of them. A
//! call that outlasts its own deadline is another thing: what should have ended it is stuck.

use std::time::Duration;

use serde::Serialize;

use super::database::DatabaseView;
use super::page::PageView;

/// How much longer than its deadline a call may take, on a machine that is very busy.
const MARGIN: Duration = Duration::from_secs(10);

/// A reason not to be ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotReady {
    /// `database`, `sink` or `worker`.
    pub about: &'static str,
    /// Which sink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink: Option<String>,
    /// The reason, for people.
    pub reason: String,
}

/// Every reason there is.
pub(super) fn not_ready(database: &DatabaseView, sinks: &[(String, PageView)]) -> Vec<NotReady> {
    let mut reasons = Vec::new();
    if !database.lately {
        reasons.push(NotReady {
            about: "database",
            sink: None,
            reason: match database.answered {
                None => "the database has not answered yet".to_owned(),
                Some(ago) => format!("the database has not answered for {} s", ago.as_secs()),
            },
        });
    }
    for (name, page) in sinks {
        let stuck = page
            .calls
            .iter()
            .filter(|call| call.lasts > call.limit + MARGIN);
        reasons.extend(stuck.map(|call| NotReady {
            about: "sink",
            sink: Some(name.clone()),
            reason: format!(
                "stuck: {} has lasted for {} s, and should have ended after {} s",
                call.call.described(),
                call.lasts.as_secs(),
                call.limit.as_secs_f64()
            ),
        }));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use crate::board::{Board, Limits, State};
    use std::time::Duration;
    use tokio::time::advance;

    fn reasons(board: &Board) -> Vec<String> {
        let reasons = board.not_ready().into_iter();
        let told = |sink: Option<String>| sink.unwrap_or_default();
        reasons
            .map(|it| format!("{} {}: {}", it.about, told(it.sink), it.reason))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_is_ready_once_the_database_has_answered() {
        let board = Board::default();
        board.announce("a", "file");
        assert_eq!(
            reasons(&board),
            ["database : the database has not answered yet"]
        );
        board.looked_at_head(true);
        assert_eq!(reasons(&board), [""; 0]);
        advance(Duration::from_secs(30)).await;
        assert_eq!(
            reasons(&board),
            ["database : the database has not answered for 30 s"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_knowingly_is_ready_however_long_it_takes() {
        let board = Board::new(Limits {
            head_interval: Duration::from_secs(100_000),
            ..Limits::default()
        });
        board.looked_at_head(true);
        let page = board.announce("a", "file");
        for state in State::ALL {
            page.enter(state);
            advance(Duration::from_secs(10_000)).await;
            assert_eq!(reasons(&board), [""; 0], "{state:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_outlasts_its_deadline_is_stuck() {
        let board = Board::default();
        let (page, limit) = (board.announce("a", "file"), Duration::from_secs(60));
        let delivery = page.delivering(limit);
        let reading = page.reading();
        advance(Duration::from_secs(70)).await;
        board.looked_at_head(true);
        assert_eq!(reasons(&board), [""; 0], "it may be late");
        advance(Duration::from_secs(1)).await;
        let expected = [
            "sink a: stuck: a delivery has lasted for 71 s, and should have ended after 60 s",
            "sink a: stuck: a call to the database has lasted for 71 s, and should have ended after 60 s",
        ];
        assert_eq!(reasons(&board), expected);
        drop((delivery, reading));
        assert_eq!(reasons(&board), [""; 0]);
    }
}
