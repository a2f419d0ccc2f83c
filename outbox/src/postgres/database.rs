//! The database as the worker uses it: a few connections, each use with a deadline.
//!
//! A connection goes back only after an answer that came in full. If a use fails,
//! runs out of time or is cancelled midway, its connection is closed: nobody gets
//! one that is in a transaction, or owes somebody else's answer. (sqlx's own pool
//! hides why it can't connect, and waits without limit when it takes one back.)

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::{Connection, PgConnection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::connect::ConnectSettings;
use super::error::{DatabaseError, DatabaseErrorKind};
use super::schema::Schema;

/// What the server's own timeout may be late.
const MARGIN: Duration = Duration::from_secs(1);
/// A connection that was idle for longer is asked whether it is still there.
const FRESH: Duration = Duration::from_secs(10);
/// A lease that waits behind slow reads for a connection would be lost.
const LEASE_CONNECTIONS: usize = 2;
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// A handle to the outbox's database. Cheap to clone.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

struct Shared {
    settings: ConnectSettings,
    slots: Arc<Semaphore>,
    lease_slots: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    losses: AtomicU64,
}

struct Idle {
    connection: PgConnection,
    since: Instant,
}

impl Database {
    /// Connects, and makes sure that the server can serve. The tables may be
    /// missing: see [`schema_state`](super::migrate::schema_state).
    ///
    /// # Errors
    /// [`DatabaseError`], which names host, port and database and says what to do.
    pub async fn connect(settings: &ConnectSettings) -> Result<Self, DatabaseError> {
        let database = Self::lazy(settings);
        let checkout = database.checkout().await?;
        checkout.release();
        Ok(database)
    }

    /// The same without connecting: the first use does.
    #[must_use]
    pub fn lazy(settings: &ConnectSettings) -> Self {
        let slots = usize::try_from(settings.max_connections.max(1)).unwrap_or(1);
        Self {
            shared: Arc::new(Shared {
                settings: settings.clone(),
                slots: Arc::new(Semaphore::new(slots)),
                lease_slots: Arc::new(Semaphore::new(LEASE_CONNECTIONS)),
                idle: Mutex::default(),
                losses: AtomicU64::new(0),
            }),
        }
    }

    /// The schema of the outbox.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.shared.settings.schema
    }

    /// How many times this handle and its clones found the connection to the server
    /// broken. It only grows.
    ///
    /// What was read before a loss may belong to another history than what is read
    /// after it: a crash can lose asynchronous commits, whose transaction ids come
    /// again then, with other events. So a reader that sees the number grow begins
    /// again from its cursor.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.shared.losses.load(Ordering::Relaxed)
    }

    /// Takes a connection for one use.
    pub(crate) async fn checkout(&self) -> Result<Checkout, DatabaseError> {
        let busy = "connections were busy (raise database.max_connections)";
        self.checkout_of(&self.shared.slots, busy).await
    }

    /// The same for a lease: it has connections that nothing else uses.
    pub(crate) async fn checkout_for_lease(&self) -> Result<Checkout, DatabaseError> {
        let busy = "connections for leases were busy (the database is slow)";
        self.checkout_of(&self.shared.lease_slots, busy).await
    }

    async fn checkout_of(
        &self,
        slots: &Arc<Semaphore>,
        busy: &str,
    ) -> Result<Checkout, DatabaseError> {
        let limit = self.shared.settings.connect_timeout;
        let Ok(slot) = timeout(limit, Arc::clone(slots).acquire_owned()).await else {
            let message = format!("for {limit:?} all {busy}");
            return Err(DatabaseError::told(DatabaseErrorKind::Unreachable, message));
        };
        let slot = slot.expect("the semaphore of connections is never closed");
        let connection = match self.shared.take_idle().await {
            Some(connection) => connection,
            None => {
                let opened = self.shared.settings.open().await;
                opened.inspect_err(|error| {
                    if error.breaks_history() {
                        self.shared.count_loss();
                    }
                })?
            }
        };
        Ok(Checkout {
            connection,
            shared: Arc::clone(&self.shared),
            _slot: slot,
        })
    }

    /// Waits for a statement's answer, but not longer than it may take.
    pub(crate) async fn within<T, E: Into<DatabaseError>>(
        &self,
        statement: impl Future<Output = Result<T, E>>,
    ) -> Result<T, DatabaseError> {
        let limit = self.shared.settings.statement_timeout + MARGIN;
        let result = match timeout(limit, statement).await {
            Ok(result) => result.map_err(Into::into),
            Err(_) => Err(DatabaseError::timed_out(limit)),
        };
        // What broke this connection may have broken the idle ones as well: a server
        // that went away, or a table that changed under their prepared statements.
        result.inspect_err(|error| {
            self.shared.idle().clear();
            if error.breaks_history() {
                self.shared.count_loss();
            }
        })
    }
}

impl Shared {
    /// An idle connection that is still there.
    async fn take_idle(&self) -> Option<PgConnection> {
        loop {
            let mut idle = self.idle().pop()?;
            if idle.since.elapsed() < FRESH {
                return Some(idle.connection);
            }
            if let Ok(Ok(())) = timeout(PING_TIMEOUT, idle.connection.ping()).await {
                return Some(idle.connection);
            }
            self.count_loss();
        }
    }

    fn count_loss(&self) {
        self.losses.fetch_add(1, Ordering::Relaxed);
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        // Nothing that holds the lock can panic halfway through a change.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection for one use. Dropped without [`Checkout::release`] it is closed.
pub(crate) struct Checkout {
    connection: PgConnection,
    shared: Arc<Shared>,
    _slot: OwnedSemaphorePermit,
}

impl Checkout {
    /// Gives the connection back after a complete answer.
    pub(crate) fn release(self) {
        self.shared.idle().push(Idle {
            connection: self.connection,
            since: Instant::now(),
        });
    }
}

impl Deref for Checkout {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Checkout {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}
