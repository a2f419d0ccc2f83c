//! A database with an outbox, and the steps that most tests share.
//!
//! Tests run side by side on one server, and the horizon is the whole server's:
//! whoever keeps a transaction open holds it for all. So tests keep theirs open
//! for moments, and wait for the horizon instead of expecting it at once.

use std::time::Duration;

use outbox::{
    ConnectSettings, Database, Event, Filter, Head, NewEvent, PageRequest, Position, Published,
    Publisher, Reader, Schema,
};
use outbox_tests::servers::{self, PostgresVersion, shared};
use sqlx::{Connection, PgConnection};
use tokio::time::{Instant, sleep};

/// An outbox in a schema whose name needs its quotes.
pub(crate) struct Outbox {
    pub(crate) version: PostgresVersion,
    pub(crate) server: servers::Database,
    pub(crate) settings: ConnectSettings,
    pub(crate) database: Database,
}

/// Runs a test on the oldest Postgres and on the newest.
pub(crate) async fn on_each_postgres(test: impl AsyncFn(Outbox)) {
    for version in PostgresVersion::ALL {
        test(Outbox::new(version).await).await;
    }
}

/// The same before anything is migrated.
pub(crate) async fn on_each_empty_database(test: impl AsyncFn(servers::Database, ConnectSettings)) {
    for version in PostgresVersion::ALL {
        let server = shared::postgres(version).await.database().await;
        let settings = settings(&server.url());
        test(server, settings).await;
    }
}

pub(crate) fn settings(url: &str) -> ConnectSettings {
    ConnectSettings {
        schema: Schema::new("Out \"box").unwrap(),
        ..ConnectSettings::new(url.to_owned())
    }
}

impl Outbox {
    pub(crate) async fn new(version: PostgresVersion) -> Self {
        let server = shared::postgres(version).await.database().await;
        let settings = settings(&server.url());
        outbox::migrate(&settings).await.unwrap();
        let database = Database::connect(&settings).await.unwrap();
        Self {
            version,
            server,
            settings,
            database,
        }
    }

    /// An application's connection, which knows nothing of our schema.
    pub(crate) async fn application(&self) -> PgConnection {
        self.server.connect().await
    }

    pub(crate) fn publisher(&self) -> Publisher {
        Publisher::in_schema(&self.settings.schema)
    }

    /// The text with the quoted schema in the places of `{s}`.
    pub(crate) fn sql(&self, text: &str) -> sqlx::AssertSqlSafe<String> {
        sqlx::AssertSqlSafe(text.replace("{s}", self.settings.schema.quoted()))
    }

    /// Runs statements on a connection of their own.
    pub(crate) async fn run(&self, text: &str) {
        let mut connection = self.application().await;
        sqlx::raw_sql(self.sql(text))
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
    }

    /// Publishes events in one transaction.
    pub(crate) async fn publish(&self, events: &[NewEvent]) -> Vec<Published> {
        let mut connection = self.application().await;
        let mut transaction = connection.begin().await.unwrap();
        let published = self
            .publisher()
            .publish_many(&mut transaction, events)
            .await
            .unwrap();
        transaction.commit().await.unwrap();
        published
    }

    /// Publishes events with these subjects in one transaction.
    pub(crate) async fn publish_subjects(
        &self,
        subjects: impl IntoIterator<Item = usize>,
    ) -> Vec<Published> {
        let events: Vec<_> = subjects
            .into_iter()
            .map(|n| event(&format!("node/{n}")))
            .collect();
        self.publish(&events).await
    }

    /// Waits until nothing can commit at or before a position any more.
    pub(crate) async fn head_after(&self, position: Position) -> Head {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let head = self.database.head().await.unwrap();
            if head.horizon > position.txid {
                return head;
            }
            assert!(
                Instant::now() < deadline,
                "the horizon does not pass {position}"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until all that was committed before this call can be read.
    pub(crate) async fn head_after_now(&self) -> Head {
        let mut connection = self.application().await;
        let (txid,): (String,) = sqlx::query_as("select pg_current_xact_id()::text")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        self.head_after(Position::new(txid.parse().unwrap(), 0))
            .await
    }

    pub(crate) async fn reader(&self, filter: &Filter) -> Reader {
        self.database.reader(filter).await.unwrap()
    }

    /// Reads all that is there, in pages of `max_events`.
    pub(crate) async fn read_all(
        &self,
        filter: &Filter,
        max_events: usize,
        horizon: outbox::Txid,
    ) -> Vec<Event> {
        let mut reader = self.reader(filter).await;
        let (mut after, mut events) = (Position::BEGINNING, Vec::new());
        loop {
            let request = PageRequest {
                after,
                horizon,
                max_events,
                max_bytes: 1 << 20,
            };
            let page = reader.read(request).await.unwrap();
            assert!(page.events.len() <= max_events);
            events.extend(page.events);
            if page.exhausted {
                return events;
            }
            assert!(page.end > after, "every page moves on");
            after = page.end;
        }
    }
}

pub(crate) fn event(subject: &str) -> NewEvent {
    NewEvent::new("node.up", "ten_1", subject)
}

pub(crate) fn request(after: Position, head: Head) -> PageRequest {
    PageRequest {
        after,
        horizon: head.horizon,
        max_events: 1_000,
        max_bytes: 1 << 20,
    }
}

pub(crate) fn filter(types: &[&str], tenants: &[&str]) -> Filter {
    Filter {
        types: types.iter().map(|one| one.parse().unwrap()).collect(),
        tenants: tenants.iter().map(|&one| one.to_owned()).collect(),
    }
}

pub(crate) fn subjects(events: &[Event]) -> Vec<&str> {
    events.iter().map(Event::subject).collect()
}
