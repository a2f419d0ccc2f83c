//! A moment of the past, as an operator names it.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use sqlx::postgres::types::PgInterval;

use crate::postgres::lease::interval;

/// A moment of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// This point in time.
    At(SystemTime),
    /// So long ago, by the database's clock.
    Ago(Duration),
}

impl Moment {
    /// For `coalesce(timestamptz 'epoch' + $1, compute_now() - $2)`: what has passed since
    /// 1970, or until now. What lies before 1970 is taken for its beginning.
    pub(super) fn parts(self) -> (Option<PgInterval>, Option<PgInterval>) {
        match self {
            Self::At(time) => {
                let since = time.duration_since(SystemTime::UNIX_EPOCH);
                (Some(interval(since.unwrap_or_default())), None)
            }
            Self::Ago(age) => (None, Some(interval(age))),
        }
    }

    /// For the record of an order.
    pub(super) fn told(self) -> Value {
        match self {
            Self::At(time) => {
                let since = time.duration_since(SystemTime::UNIX_EPOCH);
                json!({ "unix_seconds": since.unwrap_or_default().as_secs_f64() })
            }
            Self::Ago(age) => json!({ "seconds_ago": age.as_secs_f64() }),
        }
    }
}
