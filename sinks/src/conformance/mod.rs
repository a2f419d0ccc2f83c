//! The conformance kit: whether a sink keeps its contract, asked at its real destination.
//!
//! Whoever writes a sink implements [`Destination`] in a test: how to make an empty place,
//! how to connect to it, and what lies there. [`check`] then delivers some thousands of
//! events, breaks the network in between, drops sinks, kills the server, and looks at what
//! arrived and at what the sink said. The [`Report`] names the [`Rule`] that is broken,
//! and what was seen.
//!
//! ```
//! use std::net::SocketAddr;
//! use std::sync::{Arc, Mutex};
//!
//! use outbox_sinks::conformance::{self, Destination, Stored};
//! use outbox_sinks::{Connector, Delivery, async_trait, from_fn};
//!
//! /// Keeps events in memory.
//! struct Memory;
//!
//! #[async_trait]
//! impl Destination for Memory {
//!     type Place = Arc<Mutex<Vec<Stored>>>;
//!
//!     async fn fresh(&self) -> Self::Place {
//!         Arc::default()
//!     }
//!
//!     fn connector(&self, place: &Self::Place, _via: Option<SocketAddr>) -> Box<dyn Connector> {
//!         let place = Arc::clone(place);
//!         Box::new(from_fn(move |batch| {
//!             let place = Arc::clone(&place);
//!             async move {
//!                 let events = batch.iter();
//!                 let stored = events.map(|event| Stored::new(event.id(), event.payload()));
//!                 place.lock().unwrap().extend(stored);
//!                 Ok(Delivery::All)
//!             }
//!         }))
//!     }
//!
//!     async fn stored(&self, place: &Self::Place) -> Vec<Stored> {
//!         place.lock().unwrap().clone()
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let report = conformance::check("memory", &Memory).await;
//!     println!("{report}");
//!     report.assert();
//! }
//! ```
//!
//! This destination has no server, so the checks of outages are *not applicable*, and the
//! report says so. With [`Destination::server`] the kit puts a [`Proxy`] in between, whose
//! address it gives to [`Destination::connector`]: it hangs, cuts, resets and truncates.
//! A server that tells its clients where it is to be reached brings its own
//! [proxy](Destination::proxy). The other methods make more checks possible: an event that can never be sent, one that
//! the destination refuses, a server that can be killed, credentials that are wrong.
//!
//! `docs/write-a-sink.md` in the repository does all of it for a sink with a server of its own, and
//! has the whole contract as a table.
//!
//! # The rules
//!
//! | rule | what a sink must keep |
//! |---|---|
//! | `limits` | A batch may hold something and does not wait for ever; it is frozen or covered, not both. |
//! | `probe` | A probe succeeds where a delivery would, and changes nothing at the destination. |
//! | `order` | Within one key, no event becomes durable before its predecessor. |
//! | `payload` | The text of an event's data reaches the destination unchanged. |
//! | `durability` | What is reported as delivered is at the destination and survives a crash there. |
//! | `redelivery` | An event may come twice: nothing is lost or doubled by it. |
//! | `verdicts` | There is one verdict for each event; what can never be sent is undeliverable. |
//! | `blame` | No event is refused or undeliverable that the destination would take. |
//! | `input` | Whatever an event holds, it is neither an outage nor a wrong setting nor a panic. |
//! | `outage` | In an outage the delivery is unavailable or its events unconfirmed; afterwards it goes on. |
//! | `deadline` | Every call returns within its deadline, a delivery within the session's. |
//! | `background` | Once a call has returned, nothing is sent behind its back. |
//! | `retries` | The runtime retries: one call stores no event twice. |
//! | `takeover` | A sink may be dropped at any time; the next one goes on, even beside an older one. |
//! | `close` | Closing ends soon, loses nothing and sends nothing. |
//! | `configuration` | What needs a person is misconfigured, and says what to do. |
//! | `replays` | A batch apart from the flow arrives, and a replay even where repetitions are dropped. |
//! | `progress` | A destination that stores its position covers what is stored, and nothing else. |
//! | `isolation` | Two sinks with places of their own do not disturb each other. |
//! | `secrets` | No error and no refusal holds a secret or a part of a payload. |
//!
//! Every check belongs to one rule. Some things are looked at in all of them: whether what
//! is reported as delivered is there, in order and unchanged, whether calls return in time
//! and what errors show. So a check may fail by another rule than its own, and the report
//! names that one.
//!
//! # How a check calls a sink
//!
//! As the runtime does. `open`, `progress` and `deliver` have
//! [`Destination::delivery_timeout`], `probe` has [`PROBE_TIMEOUT`](crate::PROBE_TIMEOUT) and
//! `close` [`CLOSE_TIMEOUT`](crate::CLOSE_TIMEOUT), and a second more. A call that has not
//! returned by then is dropped and has failed; a panic is caught. After an error the same sink is used again, and
//! another one is opened after a missed deadline. A delivery that is
//! [`Unavailable`](crate::ErrorKind::Unavailable) or
//! [`Unconfirmed`](crate::Verdict::Unconfirmed) is tried again, six times in all
//! with pauses that double, about five seconds; a batch that [`Failed`](crate::ErrorKind::Failed) is halved. Checks run one
//! after another, each in a fresh place. One that panics or does not end has failed, and the
//! next one runs. A sink or a destination that blocks its thread for ever blocks the suite.
//!
//! The kit does not look at speed, and not at what the sink costs the destination.
//!
//! # Reading order
//!
//! `rule`, `report`; `destination` and `draft` (what an author writes), `proxy`; then
//! `suite` (runs checks), `scene` and `network` (what a check has), `courier` (calls a sink), `settle`
//! (works a batch off that holds bad events), `stored` (judges what arrived), `journal`
//! (looks for secrets); then `checks/`, one file a rule.

mod checks;
mod courier;
mod destination;
mod draft;
mod finding;
mod journal;
mod network;
mod proxy;
mod report;
mod rule;
mod scene;
mod settle;
mod stored;
mod suite;

pub use destination::{Destination, Repetitions, Stored};
pub use draft::Draft;
pub use proxy::{Mode, Proxy};
pub use report::{Check, Outcome, Report, Summary};
pub use rule::Rule;

/// Runs every check that is possible against a destination, one after another. `name` is
/// what the report calls it.
///
/// It must be called within a tokio runtime. It takes less than a second without a server, and
/// otherwise some seconds and a few times [`Destination::delivery_timeout`]: calls hang until
/// their deadline. A slow [`Destination::stored`] counts about a hundred times.
///
/// The example is on [the module's page](self).
pub async fn check<D: Destination>(name: &str, destination: &D) -> Report {
    let mut suite = suite::Suite::new(destination);
    checks::all(&mut suite).await;
    suite.report(name)
}
