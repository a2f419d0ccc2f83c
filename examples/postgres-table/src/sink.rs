//! The connector and the sink: one transaction a batch.

use std::time::Duration;

use outbox_sinks::{
    Batch, Connector, Delivery, Encoder, Progress, Session, Sink, SinkError, Template, Verdict,
    async_trait,
};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::time::timeout;

use crate::classify::classify;
use crate::row::{Written, rows};
use crate::statements::{Statements, sql};

/// The way to a table. It does not show itself: the options hold the password.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) options: PgConnectOptions,
    pub(crate) statements: Statements,
    pub(crate) create_tables: bool,
    pub(crate) key: Template,
    pub(crate) encoder: Encoder,
    pub(crate) connect_timeout: Duration,
}

#[async_trait]
impl Connector for Table {
    async fn probe(&self) -> Result<(), SinkError> {
        let mut connection = self.connect(self.connect_timeout).await?;
        let looking = self.look(&mut connection);
        let found = timeout(self.connect_timeout, looking).await;
        found.unwrap_or_else(|_| Err(too_slow("look at the tables")))
    }

    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        let mut sink = TableSink {
            to: self.clone(),
            session: session.clone(),
            deadline: session.delivery_timeout.mul_f64(0.8),
            connection: None,
        };
        let opening = sink.prepare();
        match timeout(session.delivery_timeout.mul_f64(0.8), opening).await {
            Ok(opened) => opened?,
            Err(_) => return Err(too_slow("open the tables")),
        }
        Ok(Box::new(sink))
    }

    fn stores_position(&self) -> bool {
        true
    }
}

impl Table {
    async fn connect(&self, within: Duration) -> Result<PgConnection, SinkError> {
        // Whatever becomes of us, the server lets go of the rows that we have locked.
        let limit = within.as_millis().to_string();
        let options = self.options.clone().options([
            ("statement_timeout", limit.as_str()),
            ("lock_timeout", &limit),
            ("idle_in_transaction_session_timeout", &limit),
            // Delivered means that it survives a crash.
            ("synchronous_commit", "on"),
        ]);
        let options = options.disable_statement_logging();
        match timeout(self.connect_timeout, options.connect()).await {
            Ok(connected) => connected.map_err(|error| classify("connect to the database", error)),
            Err(_) => Err(too_slow("connect to the database")),
        }
    }

    async fn look(&self, connection: &mut PgConnection) -> Result<(), SinkError> {
        let found: Result<(bool, bool, bool), _> = sqlx::query_as(sql(&self.statements.check))
            .fetch_one(connection)
            .await;
        match found {
            Ok((_, _, true)) => Ok(()),
            Ok((_, _, false)) => Err(SinkError::misconfigured(
                "write to the tables",
                "use the primary server, and grant select, insert and update on both tables",
            )),
            // They are created when the sink is opened.
            Err(sqlx::Error::Database(told))
                if self.create_tables && told.code().as_deref() == Some("42P01") =>
            {
                Ok(())
            }
            Err(error) => Err(classify("look at the tables", error)),
        }
    }
}

/// Rows and progress, in one transaction.
struct TableSink {
    to: Table,
    session: Session,
    /// How long a delivery may take, so that its connection is given up in time.
    deadline: Duration,
    /// None after an error: nobody knows what state it is in.
    connection: Option<PgConnection>,
}

#[async_trait]
impl Sink for TableSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let deadline = self.deadline;
        let storing = async {
            let mut connection = self.connected().await?;
            let delivery = self.store(&mut connection, batch).await?;
            self.connection = Some(connection);
            Ok(delivery)
        };
        // In time to say that it is an outage: the runtime would call it a failed delivery.
        let delivery = timeout(deadline, storing).await;
        delivery.unwrap_or_else(|_| Err(too_slow("store the batch")))
    }

    async fn progress(&mut self) -> Result<Option<Progress>, SinkError> {
        let deadline = self.deadline;
        let reading = async {
            let mut connection = self.connected().await?;
            let progress = self.take_over(&mut connection).await?;
            self.connection = Some(connection);
            Ok(progress)
        };
        let progress = timeout(deadline, reading).await;
        progress.unwrap_or_else(|_| Err(too_slow("read the progress")))
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        // What was delivered is committed; a connection that is dropped is closed.
        self.connection = None;
        Ok(())
    }
}

impl TableSink {
    async fn connected(&mut self) -> Result<PgConnection, SinkError> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.to.connect(self.deadline).await,
        }
    }

    /// Makes sure of the tables, and that there is a row to lock.
    async fn prepare(&mut self) -> Result<(), SinkError> {
        let mut connection = self.connected().await?;
        let there: bool = sqlx::query_scalar(sql(&self.to.statements.there))
            .fetch_one(&mut connection)
            .await
            .map_err(|error| classify("look for the tables", error))?;
        if self.to.create_tables && !there {
            sqlx::raw_sql(sql(&self.to.statements.create))
                .execute(&mut connection)
                .await
                .map_err(|error| classify("create the tables", error))?;
        }
        sqlx::query(sql(&self.to.statements.begin_sink))
            .bind(&self.session.sink)
            .execute(&mut connection)
            .await
            .map_err(|error| classify("begin with the progress", error))?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Reads the progress and puts our own token on it: an older owner that wakes up late is
    /// fenced off from now on, also before we have stored anything.
    async fn take_over(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Option<Progress>, SinkError> {
        let (statements, sink) = (&self.to.statements, &self.session.sink);
        let while_doing = |error| classify("read the progress", error);
        let mut transaction = connection.begin().await.map_err(while_doing)?;
        let stored: Option<String> = sqlx::query_scalar(sql(&statements.lock))
            .bind(sink)
            .fetch_one(&mut *transaction)
            .await
            .map_err(while_doing)?;
        let progress = parsed(stored)?;
        // What is of another flow is left as it is: the runtime judges it.
        if let Some(ours) = progress.as_ref().and_then(|it| self.session.renewed(it)) {
            sqlx::query(sql(&statements.advance))
                .bind(sink)
                .bind(ours.to_string())
                .execute(&mut *transaction)
                .await
                .map_err(while_doing)?;
        }
        transaction.commit().await.map_err(while_doing)?;
        Ok(progress)
    }

    async fn store(
        &self,
        connection: &mut PgConnection,
        batch: &Batch,
    ) -> Result<Delivery, SinkError> {
        let (statements, sink) = (&self.to.statements, &self.session.sink);
        let while_doing = |error| classify("store the batch", error);
        let mut transaction = connection.begin().await.map_err(while_doing)?;
        let stored: Option<String> = sqlx::query_scalar(sql(&statements.lock))
            .bind(sink)
            .fetch_one(&mut *transaction)
            .await
            .map_err(while_doing)?;
        let up_to = self.session.stored_up_to(parsed(stored)?.as_ref())?;
        let Some(fresh) = batch.after(up_to) else {
            // Dropped, it would keep the lock until the connection is used again.
            transaction.rollback().await.map_err(while_doing)?;
            return Ok(Delivery::All);
        };
        let written = rows(&fresh, &self.to.key, &self.to.encoder);
        upsert(&mut transaction, statements, &written, batch.is_apart())
            .await
            .map_err(while_doing)?;
        if let Some(end) = written.end.filter(|_| !batch.is_apart()) {
            sqlx::query(sql(&statements.advance))
                .bind(sink)
                .bind(self.session.progress(end).to_string())
                .execute(&mut *transaction)
                .await
                .map_err(while_doing)?;
        }
        transaction.commit().await.map_err(while_doing)?;
        Ok(delivery(batch.len(), fresh.len(), written))
    }
}

async fn upsert(
    connection: &mut PgConnection,
    statements: &Statements,
    written: &Written,
    apart: bool,
) -> Result<(), sqlx::Error> {
    let rows = &written.rows;
    if rows.keys.is_empty() {
        return Ok(());
    }
    sqlx::query(sql(&statements.upsert))
        .bind(&rows.keys)
        .bind(&rows.ids)
        .bind(&rows.types)
        .bind(&rows.tenants)
        .bind(&rows.subjects)
        .bind(&rows.txids)
        .bind(&rows.seqs)
        .bind(&rows.bodies)
        .bind(apart)
        .execute(connection)
        .await?;
    Ok(())
}

/// What was there before and what was written is delivered; then comes the event that can
/// never be a row, and behind it what has to wait for that.
fn delivery(all: usize, fresh: usize, written: Written) -> Delivery {
    let mut verdicts = vec![Verdict::Delivered; all - fresh + written.events];
    verdicts.extend(written.refusal.map(Verdict::Undeliverable));
    verdicts.resize(all, Verdict::Unconfirmed);
    Delivery::from_verdicts(verdicts)
}

fn parsed(text: Option<String>) -> Result<Option<Progress>, SinkError> {
    let progress = text.map(|text| text.parse()).transpose();
    progress.map_err(|error| {
        SinkError::misconfigured("read the progress", "let nobody else write to its table")
            .with_source(error)
    })
}

fn too_slow(doing: &str) -> SinkError {
    SinkError::unavailable(format!("{doing}: the database takes too long"))
}
