//! Reading the outbox in order, a page at a time.
//!
//! A page holds rows below a horizon that was read *before* it, so whatever
//! commits meanwhile is either above the horizon or was there already (OB-5).
//! A filter costs neither the plan nor the order: rows that it leaves out are
//! walked over by the same index condition and come without their payload.

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;

use super::database::Database;
use super::error::{DatabaseError, DatabaseErrorKind};
use super::pace::Pace;
use super::page::Page;
use super::walk::{Limits, Walk};
use crate::{Filter, Position, Txid};

const EVERYTHING: &str = "\
select txid, seq, topic, payload
from {schema}.outbox
where (txid, seq) > ($1, $2) and txid >= $1 and txid < $3
order by txid, seq limit $4";

/// The inner query keeps its limit, so the match is judged once a row, above the
/// index and not as a filter on it.
const BY_TYPE: &str = "\
select txid, seq, case when taken then topic end, case when taken then payload end
from (
    select txid, seq, topic, payload, topic like any ($5) as taken
    from {schema}.outbox
    where (txid, seq) > ($1, $2) and txid >= $1 and txid < $3
    order by txid, seq limit $4
) as walked order by txid, seq";

const BY_TYPE_AND_TENANT: &str = "\
select txid, seq, case when taken then topic end, case when taken then payload end
from (
    select txid, seq, topic, payload,
        topic like any ($5) and payload ->> 'tenantId' = any ($6) as taken
    from {schema}.outbox
    where (txid, seq) > ($1, $2) and txid >= $1 and txid < $3
    order by txid, seq limit $4
) as walked order by txid, seq";

/// What to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The position that is done with: the page begins after it.
    pub after: Position,
    /// A horizon that was read from the same database ([`Database::head`]).
    pub horizon: Txid,
    /// The most events of a page, at least 1.
    pub max_events: usize,
    /// The most payload bytes of a page. A larger event makes a page of its own.
    pub max_bytes: usize,
}

impl PageRequest {
    const fn limits(&self) -> Limits {
        Limits {
            max_events: self.max_events,
            max_bytes: self.max_bytes,
        }
    }
}

/// Reads pages for one consumer, and learns how many rows make one.
#[derive(Debug)]
pub struct Reader {
    pub(super) database: Database,
    filter: Filter,
    /// `None` after an error: the table may have changed.
    pub(super) statement: Option<&'static str>,
    pub(super) pace: Pace,
}

impl Database {
    /// A reader of the events that `filter` takes.
    ///
    /// # Errors
    /// [`DatabaseError`]; also if there is no outbox, or its payload column is
    /// not `jsonb`, `json`, `text` or `bytea`.
    pub async fn reader(&self, filter: &Filter) -> Result<Reader, DatabaseError> {
        Ok(Reader {
            database: self.clone(),
            filter: filter.clone(),
            statement: Some(self.statement_for(filter).await?),
            pace: Pace::unknown(),
        })
    }

    /// The statement that reads what `filter` takes from the table as it is.
    async fn statement_for(&self, filter: &Filter) -> Result<&'static str, DatabaseError> {
        let payload = self
            .payload_type()
            .await
            .map_err(|error| error.while_doing("look at the outbox's payload column"))?;
        if !matches!(payload.as_str(), "jsonb" | "json" | "text" | "bytea") {
            return Err(DatabaseError::misconfigured(format!(
                "the outbox's payload column is {payload}: it must be jsonb, json, text or bytea"
            )));
        }
        // On `json`, ->> fails for the whole statement at a \u0000: tenants are
        // told apart in memory there, as they are for text.
        Ok(if filter.takes_all() {
            EVERYTHING
        } else if payload == "jsonb" && !filter.tenants.is_empty() {
            BY_TYPE_AND_TENANT
        } else {
            BY_TYPE
        })
    }

    async fn payload_type(&self) -> Result<String, DatabaseError> {
        let query = sqlx::query_as(
            "select format_type(atttypid, null) from pg_attribute
             where attrelid = to_regclass($1) and attname = 'payload' and not attisdropped",
        )
        .bind(format!("{}.outbox", self.schema().quoted()));
        let mut checkout = self.checkout().await?;
        let row: Option<(String,)> = self.within(query.fetch_optional(&mut *checkout)).await?;
        checkout.release();
        row.map(|(name,)| name).ok_or_else(|| {
            let schema = self.schema().name();
            let message = format!(
                "there is no outbox table in schema {schema} (run `sinks migrate`, and check the schema's name)"
            );
            DatabaseError::told(DatabaseErrorKind::NotMigrated, message)
        })
    }
}

impl Reader {
    /// Reads the next page. Memory holds no more than the page's `max_bytes`, or
    /// one larger event, beside the row that comes from the connection.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn read(&mut self, request: PageRequest) -> Result<Page, DatabaseError> {
        if request.after >= Position::before(request.horizon) {
            return Ok(Page {
                events: Vec::new(),
                end: request.after,
                exhausted: true,
                full: false,
                payload_bytes: 0,
                rows_scanned: 0,
            });
        }
        let statement = self.take_statement().await?;
        let limit = self.pace.rows(request.max_events, request.max_bytes);
        let query = self.query(statement, &request, limit);
        let mut walk = Walk::new(request.limits());
        let mut checkout = self.database.checkout().await?;
        let complete = self
            .database
            .within(walk.run(&mut checkout, query))
            .await
            .map_err(|error| error.while_doing("read the outbox"))?;
        self.statement = Some(statement);
        if complete {
            checkout.release();
        }
        walk.teach(&mut self.pace);
        let PageRequest { after, horizon, .. } = request;
        Ok(walk.into_page(limit, after, horizon, |event| self.filter.takes(event)))
    }

    /// The statement that reads what the filter takes. It is worked out anew after an
    /// error: the caller puts it back when all went well.
    pub(super) async fn take_statement(&mut self) -> Result<&'static str, DatabaseError> {
        match self.statement.take() {
            Some(statement) => Ok(statement),
            None => self.database.statement_for(&self.filter).await,
        }
    }

    fn query(
        &self,
        statement: &'static str,
        request: &PageRequest,
        limit: u64,
    ) -> Query<'static, Postgres, PgArguments> {
        let query = sqlx::query(self.database.schema().sql(statement))
            .bind(request.after.txid)
            .bind(request.after.seq)
            .bind(request.horizon)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        if statement == EVERYTHING {
            return query;
        }
        let mut patterns: Vec<_> = self.filter.types.iter().map(|one| one.to_like()).collect();
        if patterns.is_empty() {
            patterns.push("%".to_owned());
        }
        let query = query.bind(patterns);
        if statement == BY_TYPE {
            return query;
        }
        query.bind(self.filter.tenants.clone())
    }
}
