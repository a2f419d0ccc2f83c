//! Destinations that are themselves broken: the suite goes on, and says so.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use outbox_sinks::conformance::{self, Destination, Outcome, Stored};
use outbox_sinks::{Connector, Delivery, async_trait, from_fn};

type Memory = Arc<Mutex<Vec<Stored>>>;

/// What the author's own code does when it is asked what is stored.
#[derive(Clone, Copy)]
enum Looking {
    Works,
    Panics,
    Hangs,
}

struct InMemory(Looking);

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
        match self.0 {
            Looking::Works => place.lock().unwrap().clone(),
            Looking::Panics => panic!("the reader is broken"),
            Looking::Hangs => std::future::pending().await,
        }
    }
}

#[tokio::test]
async fn what_a_destination_lacks_is_named_and_not_passed_over() {
    let report = conformance::check("memory", &InMemory(Looking::Works)).await;
    report.assert();
    let reasons: Vec<_> = report
        .checks()
        .iter()
        .filter_map(|check| match check.outcome() {
            Outcome::NotApplicable(why) => Some(why.as_str()),
            Outcome::Passed | Outcome::Failed { .. } => None,
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
    assert_eq!(report.run() + reasons.len(), report.checks().len());
}

#[tokio::test]
async fn a_panic_fails_its_check_and_the_next_one_runs() {
    let report = conformance::check("memory", &InMemory(Looking::Panics)).await;
    assert!(
        report.to_string().contains("the reader is broken"),
        "{report}"
    );
    assert!(
        report.failed() > 1 && report.run() > report.failed(),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_check_that_does_not_end_has_failed_and_the_next_one_runs() {
    let report = conformance::check("memory", &InMemory(Looking::Hangs)).await;
    assert!(report.to_string().contains("had not ended"), "{report}");
    assert!(
        report.failed() > 1 && report.run() > report.failed(),
        "{report}"
    );
}
