//! The contract: how a sink is opened, and how it delivers.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use outbox::Event;

use crate::{Batch, Delivery, Progress, Session, SinkError, Upcoming};

/// How long the runtime waits for [`Connector::probe`] before it drops the call and says
/// that the destination did not answer.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long the runtime waits for [`Sink::close`] before it drops the sink.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// A configured destination: it can be probed, and it opens sinks.
///
/// # Contract
///
/// *You may assume*: `probe` and `open` are called from within a tokio runtime;
/// `open` is never called while an earlier sink of this connector in this process is
/// still delivering. It is called anew for each lease, and may be called again under the
/// same one: after an error, a panic, a missed deadline or a pause.
///
/// *You must*: return from `open` within the session's `delivery_timeout` and from `probe`
/// within [`PROBE_TIMEOUT`] (both are dropped after that), and keep secrets out of every error.
///
/// ```
/// use std::path::PathBuf;
/// use outbox_sinks::{Batch, Connector, Delivery, Session, Sink, SinkError, async_trait};
///
/// /// A folder with one for each sink in it.
/// struct Folder(PathBuf);
/// # struct Files(PathBuf);
///
/// #[async_trait]
/// impl Connector for Folder {
///     async fn probe(&self) -> Result<(), SinkError> {
///         match self.0.is_dir() {
///             true => Ok(()),
///             false => Err(SinkError::misconfigured("find the folder", "create it")),
///         }
///     }
///
///     async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
///         self.probe().await?;
///         let files = self.0.join(&session.sink);
///         std::fs::create_dir_all(&files)?;
///         Ok(Box::new(Files(files)))
///     }
/// }
/// # #[async_trait]
/// # impl Sink for Files {
/// #     async fn deliver(&mut self, _: &Batch) -> Result<Delivery, SinkError> { Ok(Delivery::All) }
/// # }
/// ```
#[async_trait]
pub trait Connector: Send + Sync + 'static {
    /// Asks whether the destination can be reached and would take our events.
    /// Changes nothing there. It is dropped after [`PROBE_TIMEOUT`].
    ///
    /// # Errors
    /// What stands in the way, classified as in [`SinkError`].
    async fn probe(&self) -> Result<(), SinkError>;

    /// Opens a sink for one lease.
    ///
    /// # Errors
    /// What stands in the way, classified as in [`SinkError`]: the runtime backs
    /// off and opens again.
    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError>;

    /// How large a batch this destination likes best. The operator's settings win.
    fn batch_limits(&self) -> BatchLimits {
        BatchLimits::default()
    }

    /// Whether a batch that was begun must come again with the very same events after
    /// a failure or a crash, whatever has been published since (OB-8). For a
    /// destination where the whole batch becomes one thing with one name. It costs a
    /// write to the database before each delivery, and a batch is settled as a whole:
    /// each event is delivered or undeliverable, or the delivery is an error.
    ///
    /// *You must not*, then, [store a position](Self::stores_position) as well: that one
    /// leaves events open, and a frozen range has none.
    fn frozen_ranges(&self) -> bool {
        false
    }

    /// Whether the destination stores a position of its own, in the same transaction as the
    /// events: then it gets each of them exactly once in the flow. [`Sink::progress`] tells it. Where
    /// the destination is ahead of the cursor, whose last move was lost, the cursor follows;
    /// where it is behind, it has lost what it had, and the sink stops with an explanation.
    /// It costs a write to the database before each delivery, so that no event is stored
    /// there that the database could still lose.
    ///
    /// *You must*, then: store [`Session::progress`] of the last event that is stored, and
    /// cover nothing that is not. What comes behind an event that is
    /// [undeliverable](crate::Verdict::Undeliverable) or refused is
    /// [unconfirmed](crate::Verdict::Unconfirmed), and stored later. A batch
    /// [apart](Batch::is_apart) is not covered: an event of it may come again. A delivery
    /// that finds its connection gone is an error, even if the sink could make a new one:
    /// the destination may have been restored from an older state meanwhile. After each
    /// error the sink is opened anew, and asked again.
    fn stores_position(&self) -> bool {
        false
    }

    /// The key within which the destination keeps the order of events: the subject
    /// unless the sink knows better. Only events of different keys may overtake each
    /// other, when one of them is refused again and again and the other one is tried to
    /// learn whether anything is taken.
    fn key<'e>(&self, event: &'e Event) -> Cow<'e, str> {
        Cow::Borrowed(event.subject())
    }
}

/// An open sink: it delivers batches until its lease ends.
///
/// # Contract
///
/// *You may assume*: calls never overlap; batches come in outbox order, except for
/// those that are [apart](Batch::is_apart); an event may come twice (after a crash or a
/// retry), with the same id. A dead letter that is replayed has the same id as well, and
/// a [number](Event::replay): it must arrive even where repetitions are dropped. After an
/// error the same sink is called again; one that panicked or missed its deadline is not.
///
/// *You must*: report as delivered only what survives a crash of the destination;
/// within one key, never make an event durable before its predecessor; keep
/// payloads and secrets out of errors; return within
/// [`Session::delivery_timeout`], and when you do, know of nothing of the batch
/// that may still be sent behind your back, nor, if it is not delivered, of anything that
/// was begun after it.
///
/// *You must not*: retry across calls, nor retry within a call where that can store an
/// event twice; sleep to back off, keep events after returning (but for those of a batch
/// [begun ahead](Sink::deliver_ahead)), log failures (the runtime logs, once).
///
/// ```
/// use std::{fs::File, io::Write, path::PathBuf};
/// use outbox_sinks::{Batch, Delivery, Sink, SinkError, async_trait};
///
/// /// A folder in which each event becomes a file.
/// struct Files(PathBuf);
///
/// #[async_trait]
/// impl Sink for Files {
///     async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
///         for event in batch {
///             // A repetition has the same position, and replaces its file.
///             let mut file = File::create(self.0.join(event.position().to_string()))?;
///             file.write_all(event.payload().as_bytes())?;
///             file.sync_all()?;
///         }
///         File::open(&self.0)?.sync_all()?; // The names of the files, too, survive a crash.
///         Ok(Delivery::All)
///     }
/// }
/// ```
#[async_trait]
pub trait Sink: Send {
    /// Delivers a batch.
    ///
    /// # Errors
    /// When the batch as a whole failed. A failure of single events is a
    /// [`Delivery::Each`] instead.
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError>;

    /// Delivers a batch, and may begin with the one that comes next meanwhile: so the
    /// destination has something to do while this one's last acknowledgements are on their
    /// way. A sink that does not do that leaves this method alone.
    ///
    /// The answer is about `batch` only. What `next` has given is delivered by the next call,
    /// and its answer tells what came of it since it was begun. But unless each event of
    /// `batch` is delivered or undeliverable, what was begun is taken back or awaited before
    /// this call returns, and forgotten: it comes again, as any event may. So does it if
    /// another batch is delivered or the sink is closed instead.
    ///
    /// `next` gives nothing in any doubt: while something is tried again or looked for, to a
    /// connector with [frozen ranges](Connector::frozen_ranges) or one that
    /// [stores its position](Connector::stores_position), and once the sink is to stop.
    ///
    /// # Errors
    /// As for [`Sink::deliver`].
    async fn deliver_ahead(
        &mut self,
        batch: &Batch,
        next: &mut Upcoming<'_>,
    ) -> Result<Delivery, SinkError> {
        let _nothing_is_begun = next;
        self.deliver(batch).await
    }

    /// What the destination has stored of how far it has come, for a connector that
    /// [stores its position](Connector::stores_position). Called once after each opening,
    /// before the first delivery.
    ///
    /// # Errors
    /// As for [`Sink::deliver`]; the sink counts as not opened.
    async fn progress(&mut self) -> Result<Option<Progress>, SinkError> {
        Ok(None)
    }

    /// Lets go of the destination. Called at most once, after this sink's last delivery;
    /// everything that was reported as delivered is durable already, and what was not is
    /// sent by nobody but the runtime: closing sends no event. It is dropped after
    /// [`CLOSE_TIMEOUT`]; a sink that panicked or missed its deadline is dropped without it.
    ///
    /// # Errors
    /// Logged, and of no further consequence.
    async fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// When a batch is closed and delivered: at the first of these three.
///
/// ```
/// use std::time::Duration;
/// use outbox_sinks::BatchLimits;
/// let large = BatchLimits::default().max_bytes(64 << 20).max_wait(Duration::from_secs(300));
/// assert_eq!((large.max_events, large.max_bytes), (1_000, 67_108_864));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchLimits {
    /// Number of events.
    pub max_events: usize,
    /// Sum of the payloads, in bytes. A single larger event still makes a batch.
    pub max_bytes: usize,
    /// Age of the batch's first event since it was read.
    pub max_wait: Duration,
}

impl BatchLimits {
    /// With another number of events.
    #[must_use]
    pub const fn max_events(self, max_events: usize) -> Self {
        Self { max_events, ..self }
    }

    /// With another sum of the payloads, in bytes.
    #[must_use]
    pub const fn max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    /// With another age of the first event.
    #[must_use]
    pub const fn max_wait(self, max_wait: Duration) -> Self {
        Self { max_wait, ..self }
    }
}

impl Default for BatchLimits {
    /// For a destination that takes events one by one: what is there is sent at
    /// once, at most 1,000 events or 4 MiB together.
    fn default() -> Self {
        Self {
            max_events: 1_000,
            max_bytes: 4 * 1024 * 1024,
            max_wait: Duration::ZERO,
        }
    }
}

impl fmt::Debug for dyn Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl fmt::Debug for dyn Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}
