//! Everything that speaks SQL, in reading order.
//!
//! Publishing happens on the application's connection; all the rest goes through
//! [`Database`], where every use of a connection has a deadline.

mod schema;
mod xid8;

mod publish;
mod rules;

mod grants;
mod migrate;

mod connect;
mod database;
mod error;

mod head;
mod pace;
mod page;
mod reader;
mod tail;
mod walk;

mod lease;
mod settlement;

mod advance;
mod cursor;
mod dead_letters;
mod settle;
mod text;

mod prune;
mod status;
mod workers;

mod operate;

pub use connect::ConnectSettings;
pub use database::Database;
pub use error::{DatabaseError, DatabaseErrorKind};
pub use grants::{Duty, grant};
pub use head::Head;
pub use lease::{Lease, LeaseHolder, RETENTION_LEASE, sink_lease};
pub use migrate::{MigrateError, SchemaState, migrate, schema_state};
pub use operate::{
    Adopted, AdoptedCursor, DeadLetterFilter, DeadLetterRow, DeadLetterState, Discarded, Forgotten,
    Moment, Newer, Obedience, OperateError, Operation, Paused, Replaying, Resumed, SeekTarget,
    Sought, adopt,
};
pub use page::Page;
pub use prune::Prunable;
pub use publish::{NewEvent, PublishError, Published, Publisher, publish, publish_many};
pub use reader::{PageRequest, Reader};
pub use schema::{InvalidSchema, Schema};
pub use settlement::{
    Advance, Cursor, DeadLetter, Failure, Mark, Member, Origin, Owned, Pruned, Replay,
    ReplayOutcome, Settlement, Stage, Suspect, Then,
};
pub use status::{CursorStatus, DeadLetterCounts, MAX_COUNTED_LAG, Pause, RetentionHold};
pub use tail::TailRequest;
