//! Reading the table by its primary key: the statement that the relay uses, a page at a time.

use anyhow::{Context, Result};
use clap::Args;
use outbox::Txid;
use sqlx::postgres::{PgConnectOptions, PgRow, PgValueFormat};
use sqlx::{ConnectOptions, PgConnection, Row, TypeInfo, ValueRef};

/// What the sessions of these programs are called in `pg_stat_activity`.
pub const SESSIONS: &str = "floor";

const NEXT_PAGE: &str = "\
select txid, seq, topic, payload
from outbox
where (txid, seq) > ($1, $2) and txid >= $1 and txid < $3
order by txid, seq limit $4";

/// Where the rows are.
#[derive(Clone, Debug, Args)]
pub(super) struct Source {
    /// The database's URL.
    #[arg(long)]
    database: String,
    /// Rows of a page.
    #[arg(long, default_value_t = 1_000)]
    rows: i64,
}

impl Source {
    /// The database's URL.
    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// Opens a connection.
    pub(super) async fn connect(&self) -> Result<PgConnection> {
        let options: PgConnectOptions = self.database.parse()?;
        let options = options.application_name(SESSIONS);
        options.connect().await.context("connect to the database")
    }

    /// Opens the table at its beginning.
    pub(super) async fn pages(&self) -> Result<Pages> {
        let mut connection = self.connect().await?;
        let sql = "select pg_snapshot_xmin(pg_current_snapshot())";
        let horizon = sqlx::query_scalar(sql).fetch_one(&mut connection).await?;
        Ok(Pages {
            connection,
            rows: self.rows,
            after: (Txid(0), 0),
            horizon,
        })
    }
}

/// The pages of the table, one after the other.
pub(super) struct Pages {
    connection: PgConnection,
    rows: i64,
    after: (Txid, i64),
    horizon: Txid,
}

impl Pages {
    /// The next rows; none at the end.
    pub(super) async fn next(&mut self) -> Result<Vec<PgRow>> {
        let rows = sqlx::query(NEXT_PAGE)
            .bind(self.after.0)
            .bind(self.after.1)
            .bind(self.horizon)
            .bind(self.rows)
            .fetch_all(&mut self.connection)
            .await?;
        if let Some(last) = rows.last() {
            self.after = (last.try_get(0)?, last.try_get(1)?);
        }
        Ok(rows)
    }
}

/// A row's payload as text.
pub(super) fn payload(row: &PgRow) -> Result<&str> {
    let value = row.try_get_raw(3)?;
    debug_assert_eq!(value.type_info().name(), "JSONB");
    let bytes = value.as_bytes().map_err(sqlx::Error::Decode)?;
    let text = match value.format() {
        // jsonb has its version before the text.
        PgValueFormat::Binary => bytes.get(1..).unwrap_or_default(),
        PgValueFormat::Text => bytes,
    };
    Ok(std::str::from_utf8(text)?)
}
