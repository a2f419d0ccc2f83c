//! Destinations that are themselves broken: the suite goes on, and says so.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use outbox_sinks::conformance::{self, Destination, Draft, Outcome, Rule, Stored};
use outbox_sinks::{Connector, Delivery, Event, async_trait, from_fn};

type Memory = Arc<Mutex<Vec<Stored>>>;

/// What the author's own code does when it is asked what is stored.
#[derive(Clone, Copy)]
enum Looking {
    Works,
    Panics,
    Hangs,
}

struct InMemory {
    looking: Looking,
    /// Whether it calls an event refused that it takes.
    lies: bool,
}

impl InMemory {
    const fn that(looking: Looking) -> Self {
        Self {
            looking,
            lies: false,
        }
    }
}

#[async_trait]
impl Destination for InMemory {
    type Place = Memory;

    async fn fresh(&self) -> Memory {
        Memory::default()
    }

    fn connector(&self, place: &Memory, _via: Option<SocketAddr>) -> Box<dyn Connector> {
        let place = Arc::clone(place);
        Box::new(from_fn(move |batch| {
            let stored = batch
                .iter()
                .map(|event| Stored::new(event.id(), event.payload()));
            place.lock().unwrap().extend(stored);
            std::future::ready(Ok(Delivery::All))
        }))
    }

    async fn stored(&self, place: &Memory) -> Vec<Stored> {
        match self.looking {
            Looking::Works => place.lock().unwrap().clone(),
            Looking::Panics => panic!("the reader is broken"),
            Looking::Hangs => std::future::pending().await,
        }
    }

    fn refused(&self, draft: Draft) -> Option<Event> {
        self.lies.then(|| draft.event())
    }
}

#[tokio::test]
async fn what_a_destination_lacks_is_named_and_not_passed_over() {
    let report = conformance::check("memory", &InMemory::that(Looking::Works)).await;
    report.assert();
    let reasons: Vec<_> = report
        .checks()
        .iter()
        .filter_map(|check| {
            if let Outcome::NotApplicable(why) = check.outcome() {
                return Some(why.as_str());
            }
            None
        })
        .collect();
    for method in [
        "server",
        "crash",
        "undeliverable",
        "refused",
        "denied",
        "absent",
    ] {
        let named = format!("`Destination::{method}`");
        assert!(
            reasons.iter().any(|why| why.contains(&named)),
            "{named}\n{report}"
        );
    }
    assert_eq!(report.ran() + reasons.len(), report.checks().len());
}

#[tokio::test]
async fn a_panic_fails_its_check_and_the_next_one_runs() {
    let report = conformance::check("memory", &InMemory::that(Looking::Panics)).await;
    assert!(
        report.to_string().contains("the reader is broken"),
        "{report}"
    );
    assert!(
        report.failed() > 1 && report.ran() > report.failed(),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_check_that_does_not_end_has_failed_and_the_next_one_runs() {
    let report = conformance::check("memory", &InMemory::that(Looking::Hangs)).await;
    assert!(report.to_string().contains("had not ended"), "{report}");
    assert!(
        report.failed() > 1 && report.ran() > report.failed(),
        "{report}"
    );
}

#[tokio::test]
async fn an_event_that_is_taken_and_was_to_be_refused_is_the_authors_own_matter() {
    let destination = InMemory {
        looking: Looking::Works,
        lies: true,
    };
    let report = conformance::check("memory", &destination).await;
    let broken: Vec<Rule> = report.broken_rules().into_iter().collect();
    assert_eq!(broken, [Rule::Blame], "{report}");
    let told = report.to_string();
    assert!(
        told.contains("which `Destination::refused` has made"),
        "{told}"
    );
}
