//! A destination that stores its position with the data, in one transaction.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use outbox::Position;
use outbox_sinks::{
    Batch, Connector, Delivery, Progress, Refusal, Session, Sink, SinkError, Verdict, async_trait,
};

/// What happens to one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It is committed, and the word of it is lost.
    Answer,
    /// The same, and the process is stuck.
    Hangs,
    /// Nothing is done: the connection is gone, and the next delivery makes a new one.
    Connection,
}

/// The destination, as every process sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The transactions of what is stored, in the order in which it was.
    pub(crate) rows: Vec<u64>,
    pub(crate) progress: Option<Progress>,
    /// How often a sink was opened.
    pub(crate) opened: usize,
    /// How many deliveries were tried.
    pub(crate) deliveries: usize,
    pub(crate) losses: VecDeque<Loss>,
    /// These it can never take.
    pub(crate) undeliverable: Vec<u64>,
}

impl Ledger {
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Table) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }
}

#[async_trait]
impl Connector for Ledger {
    async fn probe(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        self.look(|table| table.opened += 1);
        Ok(Box::new(Writer {
            ledger: self.clone(),
            session: session.clone(),
        }))
    }

    fn stores_position(&self) -> bool {
        true
    }
}

struct Writer {
    ledger: Ledger,
    session: Session,
}

#[async_trait]
impl Sink for Writer {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let (verdicts, loss) = self.ledger.look(|table| {
            table.deliveries += 1;
            if table.losses.front() == Some(&Loss::Connection) {
                table.losses.pop_front();
                return Err(SinkError::unavailable("connection"));
            }
            let verdicts = transaction(table, &self.session, batch)?;
            Ok::<_, SinkError>((verdicts, table.losses.pop_front()))
        })?;
        match loss {
            None => Ok(Delivery::from_verdicts(verdicts)),
            Some(Loss::Answer | Loss::Connection) => Err(SinkError::unavailable("commit")),
            Some(Loss::Hangs) => std::future::pending().await,
        }
    }

    async fn progress(&mut self) -> Result<Option<Progress>, SinkError> {
        Ok(self.ledger.look(|table| table.progress.clone()))
    }
}

fn transaction(
    table: &mut Table,
    session: &Session,
    batch: &Batch,
) -> Result<Vec<Verdict>, SinkError> {
    let done = session.stored_up_to(table.progress.as_ref())?;
    let mut verdicts = Vec::new();
    let mut stored_to: Option<Position> = None;
    for event in batch {
        let (position, txid) = (event.position(), event.position().txid.0);
        let open_before = verdicts
            .iter()
            .any(|verdict| *verdict != Verdict::Delivered);
        verdicts.push(if !batch.is_apart() && position <= done {
            Verdict::Delivered
        } else if open_before {
            Verdict::Unconfirmed
        } else if table.undeliverable.contains(&txid) {
            Verdict::Undeliverable(Refusal::new("NO", "never"))
        } else {
            table.rows.push(txid);
            stored_to = Some(position);
            Verdict::Delivered
        });
    }
    if let Some(position) = stored_to.filter(|_| !batch.is_apart()) {
        table.progress = Some(session.progress(position));
    }
    Ok(verdicts)
}
