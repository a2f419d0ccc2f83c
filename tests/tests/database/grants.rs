//! A publisher can publish and nothing else; a worker can do all but publish.

use std::time::Duration;

use outbox::{
    ConnectSettings, Database, DatabaseErrorKind, Filter, Mark, Owned, Position, PublishError,
    ReplayOutcome, SchemaState, Then, grant, schema_state, sink_lease,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::fixture::{Outbox, event, on_each_postgres, request};
use crate::holding::{dead_letter, settlement};

/// Roles belong to the whole server: their names are this database's.
async fn role(outbox: &Outbox, name: &str) -> (String, String) {
    let role = format!("{name} \"{}", outbox.server.name());
    let quoted = role.replace('"', "\"\"");
    outbox.run(&format!("create role \"{quoted}\" login")).await;
    let user = role.replace(' ', "%20").replace('"', "%22");
    let url = outbox
        .server
        .url()
        .replace("postgres@", &format!("{user}@"));
    (role, url)
}

async fn denied(outbox: &Outbox, connection: &mut PgConnection, statement: &str) {
    let result = sqlx::raw_sql(outbox.sql(statement))
        .execute(connection)
        .await;
    let error = result.expect_err(statement).into_database_error().unwrap();
    assert_eq!(
        error.code().as_deref(),
        Some("42501"),
        "{statement}: {error}"
    );
}

#[tokio::test]
async fn a_publisher_can_publish_and_nothing_else() {
    on_each_postgres(async |outbox| {
        let (role, url) = role(&outbox, "publisher").await;
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let publisher = outbox.publisher();
        let error = publisher
            .publish(&mut connection, event("s"))
            .await
            .unwrap_err();
        assert!(matches!(error, PublishError::Database(_)));
        let mut owner = outbox.application().await;
        grant(
            &mut owner,
            &outbox.settings.schema,
            &[(Duty::Publisher, &role)],
        )
        .await
        .unwrap();

        publisher
            .publish(&mut connection, event("s"))
            .await
            .unwrap();
        for data in ["'1'", "'1'::json", "'1'::jsonb", "null"] {
            let call = format!("select {{s}}.outbox_publish('a.b', 't', 's', {data})");
            sqlx::raw_sql(outbox.sql(&call))
                .execute(&mut connection)
                .await
                .unwrap();
        }
        for statement in [
            "select * from {s}.outbox",
            "insert into {s}.outbox (topic, payload) values ('a.b', '{}')",
            "insert into {s}.outbox (txid, topic, payload) values ('1', 'a.b', '{}')",
            "update {s}.outbox set topic = 'x'",
            "delete from {s}.outbox",
            "truncate {s}.outbox",
            "select nextval('{s}.outbox_seq_seq')",
            "select * from {s}.outbox_cursors",
            "select * from {s}.leases",
            "select * from {s}.outbox_migrations",
            "select {s}.outbox_payload('x', 'a.b', 't', 's', '1')",
            "create table {s}.x ()",
        ] {
            denied(&outbox, &mut connection, statement).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_worker_can_read_and_keep_cursors_and_nothing_else() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish(&[event("s")]).await;
        let (role, url) = role(&outbox, "worker").await;
        let settings = ConnectSettings {
            url: url.clone().into(),
            ..outbox.settings.clone()
        };
        let database = Database::connect(&settings).await.unwrap();
        let error = database.head().await.unwrap_err();
        assert_eq!(error.kind(), DatabaseErrorKind::Denied, "{error}");
        let mut owner = outbox.application().await;
        grant(&mut owner, &settings.schema, &[(Duty::Worker, &role)])
            .await
            .unwrap();

        let mut connection = PgConnection::connect(&url).await.unwrap();
        let state = schema_state(&mut connection, &settings.schema)
            .await
            .unwrap();
        assert_eq!(state, SchemaState::Current);
        outbox.head_after(published[0].position).await;
        let head = database.head().await.unwrap();
        let mut reader = database.reader(&Filter::default()).await.unwrap();
        let page = reader
            .read(request(Position::BEGINNING, head))
            .await
            .unwrap();
        assert_eq!(page.events.len(), 1);
        keep_books(&database, page.end).await;
        for statement in [
            "select {s}.outbox_publish('a.b', 't', 's')",
            "select {s}.outbox_append('a.b', 't', 's', '1')",
            "insert into {s}.outbox (topic, payload) values ('a.b', '{}')",
            "update {s}.outbox set topic = 'x'",
            "delete from {s}.outbox",
            "delete from {s}.outbox_cursors",
            "delete from {s}.leases",
            "delete from {s}.outbox_dead_letters",
            "insert into {s}.outbox_operations (command, by_whom) values ('seek', 'me')",
            "update {s}.outbox_migrations set version = 9",
            "create table {s}.x ()",
        ] {
            denied(&outbox, &mut connection, statement).await;
        }
    })
    .await;
}

/// Does all that a worker does with leases, cursors and dead letters.
async fn keep_books(database: &Database, end: Position) {
    let ttl = Duration::from_secs(30);
    let lease = database
        .acquire_lease(&sink_lease("a"), "me", ttl)
        .await
        .unwrap()
        .unwrap();
    let claim = database
        .claim("a", &lease, Position::BEGINNING)
        .await
        .unwrap();
    assert!(claim.is_some());
    let mark = Mark {
        end,
        hunt: None,
        suspect: None,
    };
    assert_eq!(database.mark("a", &lease, &mark).await.unwrap(), Owned::Yes);
    let settlement = settlement(end, [dead_letter(end)], Then::Go);
    assert_eq!(
        database.settle("a", &lease, &settlement).await.unwrap(),
        Owned::Yes
    );
    assert_eq!(database.recent_dead_letters("a", ttl).await.unwrap(), 1);
    assert_eq!(database.replays("a", 10).await.unwrap().len(), 0);
    let outcomes = [(1, ReplayOutcome::Delivered)];
    assert_eq!(
        database
            .settle_replays("a", &lease, &outcomes)
            .await
            .unwrap(),
        Owned::Yes
    );
    let members = database.census("me", &["a".to_owned()], ttl).await.unwrap();
    assert_eq!(members[0].held, ["a"]);
    database.leave("me").await.unwrap();
    assert_eq!(database.cursors().await.unwrap().len(), 1);
    assert_eq!(database.lease_holders().await.unwrap().len(), 1);
    assert_eq!(database.renew_lease(&lease, ttl).await.unwrap(), Owned::Yes);
    database.release_lease(&lease).await.unwrap();
}

#[tokio::test]
async fn grants_to_a_missing_role_grant_nothing() {
    on_each_postgres(async |outbox| {
        let (role, _) = role(&outbox, "publisher").await;
        let mut owner = outbox.application().await;
        let schema = &outbox.settings.schema;
        grant(
            &mut owner,
            schema,
            &[(Duty::Publisher, &role), (Duty::Worker, "nobody here")],
        )
        .await
        .unwrap_err();
        let sql = AssertSqlSafe("select has_schema_privilege($1, $2, 'usage')".to_owned());
        let (may,): (bool,) = sqlx::query_as(sql)
            .bind(role)
            .bind(schema.name())
            .fetch_one(&mut owner)
            .await
            .unwrap();
        assert!(!may);
    })
    .await;
}
