//! Sinks that store their position with the rows, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use outbox_sinks::conformance::{self, Destination, Draft, Repetitions, Report, Rule, Stored};
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
    /// Goes on behind an event that is refused, and covers it.
    CoversTheRefused,
    /// Stores where a batch apart ends.
    CoversWhatIsApart,
    /// Compares positions, whatever flow they are of.
    IgnoresTheFlow,
    /// Lets an older owner write.
    LetsOlderIn,
    /// Does not say that it stores a position.
    Undeclared,
}

impl Fault {
    /// Whether what comes behind an event with this verdict waits.
    fn stops_at(self, verdict: &Verdict) -> bool {
        match verdict {
            Verdict::Delivered => false,
            Verdict::Undeliverable(_) => self != Self::CoversTheDead,
            Verdict::Refused(_) => self != Self::CoversTheRefused,
            Verdict::Unconfirmed | _ => true,
        }
    }
}

/// A row for each event.
#[derive(Default)]
struct Table {
    rows: Vec<Stored>,
}

/// How far each sink has come, by its name, in one table for all of them.
type Positions = Arc<Mutex<BTreeMap<String, Progress>>>;

#[derive(Clone)]
struct TableSink {
    table: Arc<Mutex<Table>>,
    positions: Positions,
    fault: Fault,
    session: Session,
    /// How often it was asked how far the destination has come.
    asked: usize,
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
        // As the contract says: once after each opening, before the first delivery.
        let once = usize::from(self.stores_position());
        assert_eq!(self.asked, once, "how often the progress was asked for");
        let mut table = self.table.lock().unwrap();
        let mut positions = self.positions.lock().unwrap();
        let up_to = self.stored_up_to(positions.get(&self.session.sink))?;
        let Some(fresh) = batch.after(up_to) else {
            return Ok(Delivery::All);
        };
        let mut verdicts = vec![Verdict::Delivered; batch.len() - fresh.len()];
        let mut covered = None;
        for event in &fresh {
            let open = verdicts.iter().any(|verdict| self.fault.stops_at(verdict));
            verdicts.push(if open {
                Verdict::Unconfirmed
            } else if is_too_large(event) || event.defect().is_some() {
                Verdict::Undeliverable(Refusal::new("NO_ROW", "it can't be a row"))
            } else if event.event_type() == REFUSED {
                Verdict::Refused(Refusal::new("NO_ROW", "the table does not take it"))
            } else {
                table.write(event);
                covered = Some(event.position());
                Verdict::Delivered
            });
        }
        let flows = !batch.is_apart() || self.fault == Fault::CoversWhatIsApart;
        if let Some(position) = covered.filter(|_| flows) {
            let progress = self.session.progress(position);
            positions.insert(self.session.sink.clone(), progress);
        }
        Ok(Delivery::from_verdicts(verdicts))
    }

    async fn progress(&mut self) -> Result<Option<Progress>, SinkError> {
        self.asked += 1;
        Ok(self
            .positions
            .lock()
            .unwrap()
            .get(&self.session.sink)
            .cloned())
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

/// The type of events that no table takes.
const REFUSED: &str = "node.refused";

struct Tables {
    fault: Fault,
    positions: Positions,
}

async fn report(fault: Fault) -> Report {
    let positions = Positions::default();
    conformance::check("table", &Tables { fault, positions }).await
}

#[async_trait]
impl Destination for Tables {
    type Place = Arc<Mutex<Table>>;

    async fn fresh(&self) -> Self::Place {
        Arc::default()
    }

    fn connector(&self, place: &Self::Place, _via: Option<SocketAddr>) -> Box<dyn Connector> {
        Box::new(TableSink {
            table: Arc::clone(place),
            positions: Arc::clone(&self.positions),
            fault: self.fault,
            asked: 0,
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

    fn refused(&self, draft: Draft) -> Option<Event> {
        Some(draft.with_type(REFUSED).event())
    }

    fn repetitions(&self) -> Repetitions {
        Repetitions::Merged
    }
}

#[tokio::test]
async fn a_sink_that_stores_its_position_passes_every_check_of_it() {
    let report = report(Fault::Nothing).await;
    report.assert();
    let of_progress = report
        .checks()
        .iter()
        .filter(|check| check.rule() == Rule::Progress);
    let run = of_progress.filter(|check| *check.outcome() == conformance::Outcome::Passed);
    assert_eq!(run.count(), 6, "{report}");
}

#[tokio::test]
async fn sinks_that_store_a_wrong_position_are_found() {
    for fault in [
        Fault::CoversTheDead,
        Fault::CoversTheRefused,
        Fault::CoversWhatIsApart,
        Fault::IgnoresTheFlow,
        Fault::LetsOlderIn,
        Fault::Undeclared,
    ] {
        let report = report(fault).await;
        let broken = report.broken_rules();
        assert!(broken.contains(&Rule::Progress), "{fault:?}\n{report}");
        // A position that covers too much also loses what comes later, and whoever goes on
        // behind an event that is refused overtakes it.
        let allowed = [
            Rule::Progress,
            Rule::Durability,
            Rule::Redelivery,
            Rule::Order,
        ];
        let allowed = BTreeSet::from(allowed);
        assert!(broken.is_subset(&allowed), "{fault:?}\n{report}");
    }
}
