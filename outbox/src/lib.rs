//! The transactional outbox: the table, and everything that speaks SQL to it.
//!
//! Without features this crate is the event model ([`Event`], [`Position`]).

mod envelope;
mod event;
mod filter;
mod position;

pub use event::Event;
pub use filter::{Filter, InvalidPattern, TypePattern};
pub use position::{InvalidPosition, Position, Txid};
