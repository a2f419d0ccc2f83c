//! The transactional outbox: the table, and everything that speaks SQL to it.
//!
//! An application publishes events in the transaction that changes its data; a
//! worker reads them in order and remembers how far it has come.
//!
//! ```no_run
//! use outbox::NewEvent;
//! use sqlx::{Connection, PgConnection};
//!
//! # async fn application() -> Result<(), Box<dyn std::error::Error>> {
//! let mut connection = PgConnection::connect("postgres://app@localhost/shop").await?;
//! let mut transaction = connection.begin().await?;
//! sqlx::query("update orders set state = 'paid' where id = $1")
//!     .bind(7)
//!     .execute(&mut *transaction)
//!     .await?;
//! let event = NewEvent::new("order.paid", "ten_1", "order/7").raw_data(r#"{"amount":12.50}"#);
//! let published = outbox::publish(&mut transaction, event).await?;
//! transaction.commit().await?;
//! println!("published {} at {}", published.id, published.position);
//! # Ok(())
//! # }
//! ```
//!
//! From any other language: `select outbox_publish('order.paid', 'ten_1', 'order/7', '{"amount":12.50}')`.
//!
//! # The order
//!
//! Events are read by [`Position`], `(txid, seq)`: by transaction and then by
//! insertion. There are no gaps: reading never passes a transaction that may
//! still commit. A transaction that began to write after another had committed
//! comes after it.
//!
//! Two transactions that *overlap* sort by their ids, which they get at their first
//! write, and not by when they commit. If A gets its id first, B changes a row and
//! commits, and then A changes the same row, A's event comes before B's although it
//! happened after it. Writers that lock the row before their first write are safe
//! from that.
//!
//! # Features
//!
//! `postgres` (default) is everything that speaks SQL. Without it this crate is the
//! event model alone ([`Event`], [`Position`], [`Filter`], [`Flow`]).

mod envelope;
mod event;
mod filter;
mod flow;
mod position;

pub use event::Event;
pub use filter::{Filter, InvalidPattern, TypePattern};
pub use flow::Flow;
pub use position::{InvalidPosition, Position, Txid};

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
pub use postgres::{
    Adopted, AdoptedCursor, Advance, ConnectSettings, Cursor, CursorStatus, Database,
    DatabaseError, DatabaseErrorKind, DeadLetter, DeadLetterCounts, DeadLetterFilter,
    DeadLetterRow, DeadLetterState, Discarded, Duty, Failure, Forgotten, Head, InvalidSchema,
    Lease, LeaseHolder, MAX_COUNTED_LAG, Mark, Member, MigrateError, Moment, NewEvent, Newer,
    Obedience, OperateError, Operation, Origin, Owned, Page, PageRequest, Pause, Paused, Prunable,
    Pruned, PublishError, Published, Publisher, RETENTION_LEASE, Reader, Replay, ReplayOutcome,
    Replaying, Resumed, RetentionHold, Schema, SchemaState, SeekTarget, Settlement, Sought, Stage,
    Suspect, TailRequest, Then, adopt, grant, migrate, publish, publish_many, schema_state,
    sink_lease,
};
