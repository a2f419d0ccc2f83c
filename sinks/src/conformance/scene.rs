//! The scene of one check: a fresh place, and events that no other check has.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use outbox::{Event, Position};

use super::courier::Courier;
use super::finding::Finding;
use super::journal::Journal;
use super::network::Network;
use super::stored;
use super::{Destination, Draft, Proxy, Stored};
use crate::{Batch, Connector, Session};

/// What tells one run of the suite from all others.
#[derive(Debug)]
pub(super) struct Run {
    /// What is in every payload, and no error may show.
    pub(super) canary: String,
    /// What is in every id, and in every sink's name.
    tag: String,
}

impl Run {
    pub(super) fn new() -> Self {
        // The standard library's hash maps are seeded at random: so are these.
        let random = || RandomState::new().build_hasher().finish();
        Self {
            canary: format!("canary{:016x}", random()),
            tag: format!("{:012x}", random() >> 16),
        }
    }
}

/// A place that nobody has written to, and what a check needs around it.
pub(super) struct Scene<'d, D: Destination> {
    pub(super) destination: &'d D,
    pub(super) place: D::Place,
    pub(super) journal: Arc<Journal>,
    run: Arc<Run>,
    /// Tells this check's events from those of all others.
    number: usize,
    next: AtomicI64,
}

impl<'d, D: Destination> Scene<'d, D> {
    pub(super) const fn new(
        destination: &'d D,
        place: D::Place,
        journal: Arc<Journal>,
        run: Arc<Run>,
        number: usize,
    ) -> Self {
        Self {
            destination,
            place,
            journal,
            run,
            number,
            next: AtomicI64::new(1),
        }
    }

    /// The name of this check's sink: what a destination keeps by the names of its sinks,
    /// such as their progress, is not mistaken for that of another check, or another run.
    pub(super) fn sink(&self) -> String {
        format!("conformance-{}-{}", self.number, self.run.tag)
    }

    /// Somebody who delivers straight to the server.
    pub(super) fn courier(&self) -> Courier {
        self.courier_with(self.destination.connector(&self.place, None))
    }

    /// Somebody who delivers through the network that fails.
    pub(super) fn courier_via(&self, proxy: &Proxy) -> Courier {
        let via = Some(proxy.addr());
        self.courier_with(self.destination.connector(&self.place, via))
    }

    /// Somebody who delivers by this connector.
    pub(super) fn courier_with(&self, connector: Box<dyn Connector>) -> Courier {
        let session = Session::new(self.sink(), 1, self.destination.delivery_timeout());
        Courier::new(connector, session, Arc::clone(&self.journal))
    }

    /// A network that fails, in front of the server.
    pub(super) async fn network(&self) -> Finding<Network<'d>> {
        Network::of(self.destination).await
    }

    /// The next event, still to be made, about the subject with this number.
    pub(super) fn draft(&self, subject: usize) -> Draft {
        let seq = self.next.fetch_add(1, Ordering::Relaxed);
        let position = Position::new(1_000 + seq.unsigned_abs() / 3, seq);
        // Like the real ones: 26 characters of base32 that sort by time.
        let id = format!("evt_{}{:06}{seq:08}", self.run.tag, self.number);
        let canary = &self.run.canary;
        Draft::new(position, id, format!("{canary}/{subject}"), canary)
    }

    /// The next events, over so many subjects in turn.
    pub(super) fn events(&self, count: usize, subjects: usize) -> Vec<Event> {
        let event = |index| self.draft(index % subjects).event();
        (0..count).map(event).collect()
    }

    /// The next batch, over so many subjects in turn.
    pub(super) fn batch(&self, count: usize, subjects: usize) -> Batch {
        batch(self.events(count, subjects))
    }

    /// The next batch, with so many more bytes of data in each event, which no compression
    /// makes much smaller.
    pub(super) fn large_batch(&self, count: usize, subjects: usize, bytes: usize) -> Batch {
        let event = |index| {
            let draft = self.draft(index % subjects);
            let pad = noise(draft.position().seq.unsigned_abs(), bytes);
            let data = format!(r#"{{"canary":"{}","pad":"{pad}"}}"#, self.run.canary);
            draft.with_data(data).event()
        };
        batch((0..count).map(event).collect())
    }

    /// What is there.
    pub(super) async fn stored(&self) -> Vec<Stored> {
        self.destination.stored(&self.place).await
    }

    /// Looks whether all these events are there, in order and unchanged. They were all
    /// reported as delivered, and stand in outbox order.
    pub(super) async fn verify(&self, connector: &dyn Connector, events: &[Event]) -> Finding {
        let stored = self.stored().await;
        stored::complete(events, &stored)?;
        stored::in_order(connector, events, &stored)?;
        stored::unchanged(events, &stored)?;
        stored::once_where_promised(self.destination.repetitions(), events, &stored)
    }
}

/// Text of so many hexadecimal digits that look random (by the generator splitmix64).
fn noise(seed: u64, digits: usize) -> String {
    let mut text = String::with_capacity(digits + 16);
    let mut state = seed;
    while text.len() < digits {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        text.push_str(&format!("{:016x}", mixed ^ (mixed >> 31)));
    }
    text.truncate(digits);
    text
}

/// A batch of some events.
pub(super) fn batch(events: Vec<Event>) -> Batch {
    Batch::new(events).expect("a check makes at least one event")
}
