//! Whether an order has reached the worker that runs the sink.
//!
//! An order is written down at once, and the worker obeys it: within moments, unless it
//! is in the middle of a delivery, which it finishes first. Waiting here is a courtesy.

use std::time::Duration;

use outbox::{Database, DatabaseError, Obedience};
use tokio::time::{Instant, sleep};

/// How long a command waits.
const PATIENCE: Duration = Duration::from_secs(3);
const INTERVAL: Duration = Duration::from_millis(50);

/// Waits a moment for the worker that holds the sink, and says what it has seen.
pub(super) async fn told(
    database: &Database,
    sink: &str,
    operation: i64,
) -> Result<String, DatabaseError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = database.obedience(sink).await?;
        let settled = is_settled(seen.as_ref(), operation);
        if settled || Instant::now() >= deadline {
            return Ok(sentence(seen.as_ref(), operation));
        }
        sleep(INTERVAL).await;
    }
}

fn is_obeyed(seen: &Obedience, operation: i64) -> bool {
    seen.operation >= operation && !seen.seeking
}

/// Whether waiting changes nothing any more.
fn is_settled(seen: Option<&Obedience>, operation: i64) -> bool {
    seen.is_none_or(|seen| seen.holder.is_none() || is_obeyed(seen, operation))
}

fn sentence(seen: Option<&Obedience>, operation: i64) -> String {
    match seen {
        Some(seen) if is_obeyed(seen, operation) => match &seen.holder {
            Some(holder) => format!("worker {holder} has obeyed"),
            None => "the worker that held the sink has obeyed".to_owned(),
        },
        Some(Obedience {
            holder: Some(holder),
            ..
        }) => format!("worker {holder} has not obeyed yet: it finishes the delivery in hand first"),
        _ => "no worker holds the sink: the next one that takes it will obey".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(holder: Option<&str>, operation: i64, seeking: bool) -> Obedience {
        Obedience {
            holder: holder.map(str::to_owned),
            operation,
            seeking,
        }
    }

    #[test]
    fn it_waits_for_a_worker_and_for_nobody_else() {
        for (seen, settled, words) in [
            (seen(Some("w"), 7, false), true, "worker w has obeyed"),
            (seen(Some("w"), 9, false), true, "worker w has obeyed"),
            (
                seen(Some("w"), 6, false),
                false,
                "worker w has not obeyed yet",
            ),
            (
                seen(Some("w"), 7, true),
                false,
                "worker w has not obeyed yet",
            ),
            (seen(None, 6, false), true, "no worker holds the sink"),
            (seen(None, 7, true), true, "no worker holds the sink"),
            (
                seen(None, 7, false),
                true,
                "the worker that held the sink has obeyed",
            ),
        ] {
            assert_eq!(is_settled(Some(&seen), 7), settled, "{seen:?}");
            let told = sentence(Some(&seen), 7);
            assert!(told.starts_with(words), "{seen:?}: {told}");
        }
        assert!(is_settled(None, 7));
    }
}
