//! The example for a table in another Postgres.

use std::net::SocketAddr;

use example_postgres_table::PostgresTable;
use outbox_sinks::conformance::{Destination, Draft, Repetitions, Stored};
use outbox_sinks::{Connector, Event, SinkKind, async_trait};
use outbox_tests::servers::{Database, Postgres, PostgresVersion};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::Mutex;

use crate::place;

const PASSWORD: &str = "open-sesame";
const WRONG_PASSWORD: &str = "wrong-sesame";

/// Two tables each.
pub(crate) struct Tables {
    server: Mutex<Postgres>,
    addr: SocketAddr,
    database: Database,
}

impl Tables {
    pub(crate) async fn start() -> Self {
        let server = Postgres::options(PostgresVersion::Newest).start().await;
        let database = server.database().await;
        Self {
            addr: server.addr(),
            server: Mutex::new(server),
            database,
        }
    }

    fn connector(&self, place: &str, url: &str, password: &str) -> Box<dyn Connector> {
        let settings = json!({
            "url": url,
            "password": password,
            "table": place,
            "progress_table": format!("{place}_progress"),
        });
        let settings = serde_json::from_value(settings).expect("the settings are right");
        PostgresTable::connector("test", settings).expect("the settings are right")
    }

    async fn connect(&self) -> PgConnection {
        self.database.connect().await
    }
}

#[async_trait]
impl Destination for Tables {
    type Place = String;

    /// The table that the sink would make, with a column more that tells the order in which
    /// rows came, and a rule that the sink does not know.
    async fn fresh(&self) -> String {
        let place = place::name("c");
        let sql = format!(
            "create table {place} (
                 key text primary key, id text not null, type text not null,
                 tenant_id text not null, subject text not null,
                 txid bigint not null, seq bigint not null, body text not null,
                 came bigserial, check (type <> 'node.refused')
             )"
        );
        let mut connection = self.connect().await;
        let made = sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut connection)
            .await;
        made.expect("a table can be made");
        connection
            .close()
            .await
            .expect("a connection can be closed");
        place
    }

    fn connector(&self, place: &String, via: Option<SocketAddr>) -> Box<dyn Connector> {
        let url = self.database.url_via(via.unwrap_or(self.addr));
        self.connector(place, &url, PASSWORD)
    }

    async fn stored(&self, place: &String) -> Vec<Stored> {
        let sql = format!("select id, body from {place} order by came");
        let mut connection = self.connect().await;
        let rows: Vec<(String, String)> = sqlx::query_as(AssertSqlSafe(sql))
            .fetch_all(&mut connection)
            .await
            .expect("the table can be read");
        rows.into_iter()
            .map(|(id, body)| Stored::new(id, body))
            .collect()
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(self.addr)
    }

    async fn crash(&self) -> bool {
        let mut server = self.server.lock().await;
        server.kill().await;
        server.start_again().await;
        true
    }

    fn undeliverable(&self, draft: Draft) -> Option<Event> {
        Some(draft.with_subject("a\0b").event())
    }

    fn refused(&self, draft: Draft) -> Option<Event> {
        Some(draft.with_type("node.refused").event())
    }

    /// Whoever comes without a password is let in here, but nobody who does not exist.
    fn denied(&self, place: &String) -> Option<Box<dyn Connector>> {
        let url = self
            .database
            .url_via(self.addr)
            .replace("postgres@", "nobody@");
        Some(self.connector(place, &url, WRONG_PASSWORD))
    }

    fn absent(&self) -> Option<Box<dyn Connector>> {
        let url = format!("postgres://postgres@{}/no_such_database", self.addr);
        Some(self.connector("events", &url, PASSWORD))
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned(), WRONG_PASSWORD.to_owned()]
    }

    fn repetitions(&self) -> Repetitions {
        Repetitions::Merged
    }
}
