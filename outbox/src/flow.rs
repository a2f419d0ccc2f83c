//! Which run of positions a position belongs to.
//!
//! A position alone means little outside of its database: another cluster counts its
//! transactions anew, and an operator may send a cursor back. A destination that stores a
//! position therefore stores with it in which flow it was reached.

use std::sync::Arc;

/// One run of a sink's cursor through one outbox: positions of the same flow can be compared.
///
/// ```
/// use outbox::Flow;
/// let flow = Flow::new("7341/16384/16391", 0);
/// assert_ne!(flow, Flow::new("7341/16384/16391", 1), "an operator sent the cursor elsewhere");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flow {
    origin: Arc<str>,
    generation: i64,
}

impl Flow {
    /// A flow out of the outbox that `origin` tells from all others, in the cursor's
    /// `generation`.
    pub fn new(origin: impl Into<Arc<str>>, generation: i64) -> Self {
        Self {
            origin: origin.into(),
            generation,
        }
    }

    /// Tells this outbox from every other one: digits and slashes, from the cluster's
    /// identifier and the ids of database and table.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Grows whenever an operator decides where the cursor goes on. It is a time, in
    /// microseconds since 1970, so that those of different databases can be compared;
    /// zero for a cursor that was never sent anywhere.
    #[must_use]
    pub const fn generation(&self) -> i64 {
        self.generation
    }
}
