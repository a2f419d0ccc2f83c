//! What the author of a sink tells the kit about the destination.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use outbox::Event;
use serde::Deserialize;

use super::{Draft, Proxy};
use crate::Connector;

/// A destination under test: where the kit can make a place, send to it through a sink,
/// and look from the outside at what arrived.
///
/// Three methods must be written. Each of the others makes more checks possible; a check
/// that lacks something is reported as not applicable, with the reason. A method that
/// panics makes the check fail that called it.
///
/// The example is on [the module's page](super).
#[async_trait]
pub trait Destination: Send + Sync {
    /// A place to write to: the name of a topic, a stream, a table, a path, or whatever
    /// else tells one from another. It may clean up when it is dropped.
    type Place: Send + Sync;

    /// Makes a place that nobody has written to. Called once for each check.
    async fn fresh(&self) -> Self::Place;

    /// A connector to the place. It goes to `via` instead of the server's own address if
    /// that is given: there the kit plays the network that fails.
    ///
    /// The order of events is looked at within each [key](Connector::key). A connector whose
    /// key is finer than the destination's own, one for each event at the worst, leaves
    /// nothing to look at: the checks of `order` pass and say nothing.
    fn connector(&self, place: &Self::Place, via: Option<SocketAddr>) -> Box<dyn Connector>;

    /// All events that are durable in the place at this moment, repetitions included,
    /// in the order in which a consumer gets them, at least within one key. It must not
    /// go through the sink or through `via`, and see at once what was acknowledged.
    async fn stored(&self, place: &Self::Place) -> Vec<Stored>;

    /// Where the server listens, for the network that fails. `None` if there is no network
    /// between the sink and its destination.
    fn server(&self) -> Option<SocketAddr> {
        None
    }

    /// A proxy that stands in front of the server already: for one that tells its clients
    /// where it is to be reached, and was told the proxy's address when it was started. The
    /// kit then starts none of its own in front of [`server`](Self::server).
    fn proxy(&self) -> Option<&Proxy> {
        None
    }

    /// Kills the server as a power cut would, brings it back at the same address, and
    /// waits until it answers. `false` if that can't be done.
    ///
    /// `kill -9` shows less: what the server has written and not synced is in the system's
    /// page cache, which survives. It finds what a server had only in its own memory. To find
    /// a missing sync, cut the power of a virtual machine, or put the server's files on a
    /// file system that can drop what was not synced.
    async fn crash(&self) -> bool {
        false
    }

    /// An event that the sink can never send, and knows it without asking: too large, an
    /// illegal name.
    fn undeliverable(&self, draft: Draft) -> Option<Event> {
        drop(draft);
        None
    }

    /// An event that the sink would send and the destination does not take, while it takes
    /// others.
    fn refused(&self, draft: Draft) -> Option<Event> {
        drop(draft);
        None
    }

    /// A connector to the place with credentials that are wrong.
    fn denied(&self, place: &Self::Place) -> Option<Box<dyn Connector>> {
        let _ = place;
        None
    }

    /// A connector to a place that does not exist and that the sink does not make.
    fn absent(&self) -> Option<Box<dyn Connector>> {
        None
    }

    /// Passwords and the like that the connectors know, also those of
    /// [`denied`](Self::denied). No error may hold one of them.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }

    /// What becomes of an event that arrives twice.
    fn repetitions(&self) -> Repetitions {
        Repetitions::Kept
    }

    /// How long one delivery may take. The suite waits so long several times, so a few
    /// seconds are best; they must be enough for a thousand small events. A call that has
    /// not returned by then has failed, as it has with the runtime, so raise it where the
    /// machine is slow.
    fn delivery_timeout(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// One event as a consumer gets it.
///
/// ```
/// use outbox_sinks::conformance::Stored;
/// let stored = Stored::new("evt_1", r#"{"id":"evt_1","data":{"price":1.10}}"#);
/// assert_eq!(stored.id, "evt_1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// The event's id.
    pub id: String,
    /// The bytes that hold its data, in whatever format.
    pub body: Vec<u8>,
}

impl Stored {
    /// Puts it together.
    pub fn new(id: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self {
            id: id.into(),
            body: body.into(),
        }
    }

    /// One whose body is a JSON object with the event's id in `id`, as the formats `native`
    /// and `cloudevents` write it. Nothing else is read: the kit sends numbers that few
    /// parsers take.
    ///
    /// ```
    /// use outbox_sinks::conformance::Stored;
    /// let line = r#"{"id":"evt_1","data":{"huge":1e999},"sequence":"1.2"}"#;
    /// assert_eq!(Stored::json(line), Stored::new("evt_1", line));
    /// ```
    ///
    /// # Panics
    /// If it is no such object: the check fails that asked for it.
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let found: Result<Identified<'_>, _> = serde_json::from_slice(&body);
        let id = found.map(|found| found.id.into_owned());
        let id = id.expect("what is stored is a JSON object with a text `id`");
        Self { id, body }
    }
}

#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

/// What a destination does with an event that it has already.
///
/// A table with the event's id for a key, written with `insert … on conflict do nothing`,
/// is [`Dropped`](Self::Dropped) if a replay gets a key of its own, and otherwise
/// [`Merged`](Self::Merged); a topic is [`Kept`](Self::Kept).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Repetitions {
    /// It keeps both copies; consumers drop one by its id.
    Kept,
    /// It drops the second copy, unless that is a [replay](Event::replay).
    Dropped,
    /// The two become one: a row that is written again, an object of the same name.
    /// [`Destination::stored`] shows it at the place of the first.
    Merged,
}
