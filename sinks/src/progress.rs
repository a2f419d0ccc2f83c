//! How a destination that stores its own position says how far it has come.
//!
//! Stored in the transaction that stores the events, a position makes a sink exactly
//! once: whatever was answered or lost, the two are there together or not at all. A
//! position alone would not do: it could be of another database, or of the time before an
//! operator sent the cursor back, or be written by an owner that is none any more. So a
//! sink stores a [`Progress`], which says all of that, and only [`Session`](crate::Session)
//! makes and reads one.

use std::fmt;
use std::str::FromStr;

use outbox::{Flow, InvalidPosition, Position};

/// How far a destination has come, as it stores it: one short line of text.
///
/// ```
/// use std::time::Duration;
/// use outbox_sinks::{Position, Progress, Session};
///
/// let session = Session::new("orders", 1, Duration::from_secs(60));
/// let progress = session.progress(Position::new(88213, 51120));
/// let stored: String = progress.to_string();
///
/// // Later, perhaps in another process:
/// let stored: Progress = stored.parse()?;
/// let up_to = session.stored_up_to(Some(&stored)).expect("nobody newer has written");
/// assert_eq!(up_to, Position::new(88213, 51120));
/// # Ok::<(), outbox_sinks::InvalidProgress>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    flow: Flow,
    token: i64,
    position: Position,
}

impl Progress {
    pub(crate) const fn new(flow: Flow, token: i64, position: Position) -> Self {
        Self {
            flow,
            token,
            position,
        }
    }

    /// The last position that is stored. It means something in its [flow](Self::flow) only.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The run of positions that it belongs to.
    #[must_use]
    pub const fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The lease's token under which it was stored.
    #[must_use]
    pub const fn token(&self) -> i64 {
        self.token
    }
}

/// `origin:generation:token:txid.seq`.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (origin, generation) = (self.flow.origin(), self.flow.generation());
        write!(f, "{origin}:{generation}:{}:{}", self.token, self.position)
    }
}

impl FromStr for Progress {
    type Err = InvalidProgress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidProgress(text.to_owned());
        let mut parts = text.splitn(4, ':');
        let mut part = || parts.next().ok_or_else(invalid);
        let (origin, generation, token, position) = (part()?, part()?, part()?, part()?);
        let number = |text: &str| text.parse().map_err(|_| invalid());
        Ok(Self {
            flow: Flow::new(origin, number(generation)?),
            token: number(token)?,
            position: position.parse().map_err(|_: InvalidPosition| invalid())?,
        })
    }
}

/// A text that is no [`Progress`]: something else has written where the sink keeps it.
///
/// ```
/// use outbox_sinks::Progress;
/// let error = "42".parse::<Progress>().unwrap_err();
/// assert!(error.to_string().contains("`42`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidProgress(String);

impl fmt::Display for InvalidProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(80).collect();
        write!(
            f,
            "`{shown}` is not the progress of a sink, which looks like \
             7341/16384/16391:0:12:88213.51120"
        )
    }
}

impl std::error::Error for InvalidProgress {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_progress_reads_back_as_it_was_written(
            origin in "[0-9/]{0,30}", generation: i64, token: i64, txid: u64, seq: i64,
        ) {
            let flow = Flow::new(origin, generation);
            let progress = Progress::new(flow, token, Position::new(txid, seq));
            prop_assert_eq!(progress.to_string().parse(), Ok(progress));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,60}") {
            let _outcome = text.parse::<Progress>();
        }
    }

    #[test]
    fn a_text_that_is_no_progress_is_refused() {
        for text in ["", "1.2", "a:b:c:d", "7/1:0:1", "7/1:0:1:9", "7/1:x:1:1.2"] {
            assert!(text.parse::<Progress>().is_err(), "{text}");
        }
    }
}
