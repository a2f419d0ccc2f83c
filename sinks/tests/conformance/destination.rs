//! The ledger as a destination under test.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox_sinks::conformance::{Destination, Draft, Proxy, Repetitions, Stored};
use outbox_sinks::{Connector, Event, async_trait};

use super::faults::Fault;
use super::ledger::{Ledger, PASSWORD, REFUSED};
use super::sink::{LARGEST, LedgerConnector, Shared};

const WRONG: &str = "wrong-horse-battery";

pub(crate) struct LedgerDestination {
    pub(crate) ledger: Ledger,
    pub(crate) fault: Fault,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) repetitions: Repetitions,
    pub(crate) shared: Arc<Mutex<Shared>>,
}

impl LedgerDestination {
    fn to(&self, server: SocketAddr, place: &str, password: &'static str) -> Box<dyn Connector> {
        Box::new(LedgerConnector {
            shared: Arc::clone(&self.shared),
            server,
            place: place.to_owned(),
            password,
            fault: self.fault,
            timeout: self.delivery_timeout(),
            known: Arc::default(),
        })
    }
}

#[async_trait]
impl Destination for LedgerDestination {
    type Place = String;

    async fn fresh(&self) -> String {
        self.ledger.create()
    }

    fn connector(&self, place: &String, via: Option<SocketAddr>) -> Box<dyn Connector> {
        let via = via.filter(|_| self.fault != Fault::GoesStraightToTheServer);
        self.to(via.unwrap_or(self.ledger.addr), place, PASSWORD)
    }

    async fn stored(&self, place: &String) -> Vec<Stored> {
        self.ledger.read(place)
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.ledger.addr)
    }

    fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    async fn crash(&self) -> bool {
        self.ledger.crash();
        true
    }

    fn undeliverable(&self, draft: Draft) -> Option<Event> {
        let data = format!("\"{}\"", "x".repeat(LARGEST));
        Some(draft.with_data(data).event())
    }

    /// The rest of its data is what the kit put there.
    fn refused(&self, draft: Draft) -> Option<Event> {
        Some(draft.with_type(format!("node.{REFUSED}")).event())
    }

    fn denied(&self, place: &String) -> Option<Box<dyn Connector>> {
        Some(self.to(self.ledger.addr, place, WRONG))
    }

    fn absent(&self) -> Option<Box<dyn Connector>> {
        Some(self.to(self.ledger.addr, "nowhere", PASSWORD))
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned(), WRONG.to_owned()]
    }

    fn repetitions(&self) -> Repetitions {
        self.repetitions
    }

    fn delivery_timeout(&self) -> Duration {
        Duration::from_secs(1)
    }
}
