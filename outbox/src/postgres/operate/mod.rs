//! What operators order: pause, resume, seek, forget, adopt, replay, discard.
//!
//! An order is written down and carried out by whoever owns the cursor; nothing here
//! moves the cursor of a sink that a worker may hold (OB-3). Each order leaves its row
//! in `outbox_operations` in the transaction that writes it down, and by that row the
//! workers learn of it.

mod adopt;
mod audit;
mod dead_letters;
mod forget;
mod moment;
mod newer;
mod pause;
mod replay;
mod seek;

pub use adopt::{Adopted, AdoptedCursor, adopt};
pub use audit::{Obedience, Operation};
pub use dead_letters::{DeadLetterFilter, DeadLetterRow, DeadLetterState};
pub use forget::Forgotten;
pub use moment::Moment;
pub use newer::Newer;
pub use pause::{Paused, Resumed};
pub use replay::{Discarded, Replaying};
pub use seek::{SeekTarget, Sought};

use super::error::DatabaseError;
use crate::{Position, Txid};

/// Why an order was not given.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// The server can't be reached or refused.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The sink has no cursor.
    #[error("sink {0} has no cursor: no worker has opened it yet")]
    NoCursor(String),
    /// Who went there would skip events that are still to be committed.
    #[error(
        "position {position} can't be sought: what is committed later may come before it, \
         since nothing from transaction {horizon} on is readable yet; `head` is the last \
         position that can be sought"
    )]
    BeyondHorizon {
        /// What was asked for.
        position: Position,
        /// The first transaction that is not readable yet.
        horizon: Txid,
    },
    /// A worker is at it.
    #[error(
        "held by a running worker: {0}; stop it first, or take the sink out of its configuration"
    )]
    Held(String),
}

/// What the server answers, which may be a refusal of ours.
type Answer<T> = Result<Result<T, OperateError>, sqlx::Error>;
