//! Sinks that store their position with the rows, in memory.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use outbox_sinks::conformance::{self, Destination, Draft, Repetitions, Rule, Stored};
use outbox_sinks::{
    Batch, Connector, Delivery, ErrorKind, Event, Position, Progress, Refusal, Session, Sink,
    SinkError, Verdict, async_trait,
};

/// What such a sink may do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// Goes on behind an event that can never be sent, and covers it.
    CoversTheDead,
    /// Stores where a batch apart ends.
    CoversWhatIsApart,
    /// Compares positions, whatever flow they are of.
    IgnoresTheFlow,
    /// Lets an older owner write.
    LetsOlderIn,
    /// Does not say that it stores a position.
    Undeclared,
}

#[derive(Default)]
struct Table {
    rows: Vec<Stored>,
    progress: Option<Progress>,
}

#[derive(Clone)]
struct TableSink {
    table: Arc<Mutex<Table>>,
    fault: Fault,
    session: Session,
}

#[async_trait]
impl Connector for TableSink {
    async fn probe(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Self {
            session: session.clone(),
            ..self.clone()
        }))
    }

    fn stores_position(&self) -> bool {
        self.fault != Fault::Undeclared
    }
}

#[async_trait]
impl Sink for TableSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let mut table = self.table.lock().unwrap();
        let up_to = self.stored_up_to(table.progress.as_ref())?;
        let Some(fresh) = batch.after(up_to) else {
            return Ok(Delivery::All);
        };
        let goes_on = self.fault == Fault::CoversTheDead;
        let mut verdicts = vec![Verdict::Delivered; batch.len() - fresh.len()];
        let mut covered = None;
        for event in &fresh {
            let open = verdicts
                .iter()
                .any(|verdict| *verdict != Verdict::Delivered);
            verdicts.push(if open && !goes_on {
                Verdict::Unconfirmed
            } else if is_too_large(event) || event.defect().is_some() {
                Verdict::Undeliverable(Refusal::new("NO_ROW", "it can't be a row"))
            } else {
                table.write(event);
                covered = Some(event.position());
                Verdict::Delivered
            });
        }
        let flows = !batch.is_apart() || self.fault == Fault::CoversWhatIsApart;
        if let Some(position) = covered.filter(|_| flows) {
            table.progress = Some(self.session.progress(position));
        }
        Ok(Delivery::from_verdicts(verdicts))
    }

    async fn progress(&mut self) -> Result<Option<Progress>, SinkError> {
        Ok(self.table.lock().unwrap().progress.clone())
    }
}

impl TableSink {
    fn stored_up_to(&self, progress: Option<&Progress>) -> Result<Position, SinkError> {
        if self.fault == Fault::IgnoresTheFlow {
            return Ok(progress.map_or(Position::BEGINNING, Progress::position));
        }
        match self.session.stored_up_to(progress) {
            Err(error) if self.fault == Fault::LetsOlderIn && error.kind() == ErrorKind::Fenced => {
                Ok(Position::BEGINNING)
            }
            answer => answer,
        }
    }
}

impl Table {
    /// A row for each id.
    fn write(&mut self, event: &Event) {
        let row = Stored::new(event.id(), event.payload());
        match self.rows.iter_mut().find(|known| known.id == row.id) {
            Some(known) => *known = row,
            None => self.rows.push(row),
        }
    }
}

fn is_too_large(event: &Event) -> bool {
    event.payload().len() > 500_000
}

struct Tables(Fault);

#[async_trait]
impl Destination for Tables {
    type Place = Arc<Mutex<Table>>;

    async fn fresh(&self) -> Self::Place {
        Arc::default()
    }

    fn connector(&self, place: &Self::Place, _via: Option<SocketAddr>) -> Box<dyn Connector> {
        Box::new(TableSink {
            table: Arc::clone(place),
            fault: self.0,
            session: Session::new("none", 0, self.delivery_timeout()),
        })
    }

    async fn stored(&self, place: &Self::Place) -> Vec<Stored> {
        place.lock().unwrap().rows.clone()
    }

    fn undeliverable(&self, draft: Draft) -> Option<Event> {
        Some(
            draft
                .with_data(format!("\"{}\"", "x".repeat(600_000)))
                .event(),
        )
    }

    fn repetitions(&self) -> Repetitions {
        Repetitions::Merged
    }
}

#[tokio::test]
async fn a_sink_that_stores_its_position_passes_every_check_of_it() {
    let report = conformance::check("table", &Tables(Fault::Nothing)).await;
    report.assert();
    let of_progress = report
        .checks()
        .iter()
        .filter(|check| check.rule() == Rule::Progress);
    let run = of_progress.filter(|check| *check.outcome() == conformance::Outcome::Passed);
    assert_eq!(run.count(), 5, "{report}");
}

#[tokio::test]
async fn sinks_that_store_a_wrong_position_are_found() {
    for fault in [
        Fault::CoversTheDead,
        Fault::CoversWhatIsApart,
        Fault::IgnoresTheFlow,
        Fault::LetsOlderIn,
        Fault::Undeclared,
    ] {
        let report = conformance::check("table", &Tables(fault)).await;
        let broken = report.broken_rules();
        assert!(broken.contains(&Rule::Progress), "{fault:?}\n{report}");
        // A position that covers too much also loses what comes later.
        let allowed = BTreeSet::from([Rule::Progress, Rule::Durability, Rule::Redelivery]);
        assert!(broken.is_subset(&allowed), "{fault:?}\n{report}");
    }
}
