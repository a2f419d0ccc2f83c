//! A sink with frozen ranges: a batch becomes one object with the name of its range.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use outbox_sinks::conformance::{self, Destination, Report, Rule, Stored};
use outbox_sinks::{
    Batch, Connector, Delivery, Position, Refusal, Session, Sink, SinkError, Verdict, async_trait,
};

/// Objects by their range, and how often that was written.
type Bucket = Arc<Mutex<BTreeMap<(Position, Position, usize), Vec<Stored>>>>;

/// What such a sink may do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// A range that comes again is written again.
    WritesAnew,
    /// A range that comes again is written again in another process.
    NamesByProcess,
    /// It claims to store a position as well.
    IsCovered,
}

#[derive(Clone)]
struct ObjectSink {
    bucket: Bucket,
    fault: Fault,
    /// The number of the connector.
    process: usize,
}

#[async_trait]
impl Connector for ObjectSink {
    async fn probe(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn open(&self, _session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }

    fn frozen_ranges(&self) -> bool {
        true
    }

    fn stores_position(&self) -> bool {
        self.fault == Fault::IsCovered
    }
}

#[async_trait]
impl Sink for ObjectSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let verdict = |defect: Option<&str>| match defect {
            Some(defect) => Verdict::Undeliverable(Refusal::new("MALFORMED_PAYLOAD", defect)),
            None => Verdict::Delivered,
        };
        let fit = batch.iter().filter(|event| event.defect().is_none());
        let object = fit.map(|event| Stored::new(event.id(), event.payload()));
        let mut bucket = self.bucket.lock().unwrap();
        let replay = usize::try_from(batch.first().replay()).unwrap();
        let version = match self.fault {
            Fault::WritesAnew => bucket.len(),
            Fault::NamesByProcess => 10 * self.process + replay,
            Fault::Nothing | Fault::IsCovered => replay,
        };
        let name = (batch.first().position(), batch.end(), version);
        bucket.insert(name, object.collect());
        let verdicts = batch.iter().map(|event| verdict(event.defect()));
        Ok(Delivery::from_verdicts(verdicts.collect()))
    }
}

struct Objects {
    fault: Fault,
    connectors: AtomicUsize,
}

#[async_trait]
impl Destination for Objects {
    type Place = Bucket;

    async fn fresh(&self) -> Bucket {
        Bucket::default()
    }

    fn connector(&self, place: &Bucket, _via: Option<SocketAddr>) -> Box<dyn Connector> {
        Box::new(ObjectSink {
            bucket: Arc::clone(place),
            fault: self.fault,
            process: self.connectors.fetch_add(1, Ordering::Relaxed),
        })
    }

    async fn stored(&self, place: &Bucket) -> Vec<Stored> {
        let bucket = place.lock().unwrap();
        bucket.values().flatten().cloned().collect()
    }
}

async fn report(fault: Fault) -> Report {
    let connectors = AtomicUsize::new(0);
    conformance::check("objects", &Objects { fault, connectors }).await
}

#[tokio::test]
async fn frozen_ranges_that_keep_their_names_pass() {
    report(Fault::Nothing).await.assert();
}

#[tokio::test]
async fn a_frozen_range_that_is_written_anew_is_found() {
    for fault in [Fault::WritesAnew, Fault::NamesByProcess] {
        let report = report(fault).await;
        let expected = BTreeSet::from([Rule::Redelivery]);
        assert_eq!(report.broken_rules(), expected, "{fault:?}\n{report}");
    }
}

#[tokio::test]
async fn a_frozen_range_that_is_covered_as_well_is_found() {
    let report = report(Fault::IsCovered).await;
    let broken = report.broken_rules();
    assert!(broken.contains(&Rule::Limits), "{report}");
}
