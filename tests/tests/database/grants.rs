//! Each duty has the rights that it needs and no others.

use std::collections::BTreeMap;
use std::time::Duration;

use outbox::{
    ConnectSettings, Database, DatabaseErrorKind, DeadLetterFilter, Duty, Filter, Mark, Moment,
    Owned, Position, PublishError, RETENTION_LEASE, ReplayOutcome, SchemaState, SeekTarget, Then,
    grant, schema_state, sink_lease,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::fixture::{Outbox, event, on_each_postgres, request};
use crate::holding::{dead_letter, go, hold, settle, settlement};

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
    let recent = database.recent_dead_letters("a", ttl, &[]).await;
    assert_eq!(recent.unwrap(), 1);
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

/// The same database under another role, before and after it was granted its duty.
async fn as_role(outbox: &Outbox, duty: Duty, name: &str) -> (Database, PgConnection) {
    let (role, url) = role(outbox, name).await;
    let settings = ConnectSettings {
        url: url.clone().into(),
        ..outbox.settings.clone()
    };
    let database = Database::connect(&settings).await.unwrap();
    let error = database.retention_hold().await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Denied, "{error}");
    let mut owner = outbox.application().await;
    grant(&mut owner, &settings.schema, &[(duty, &role)])
        .await
        .unwrap();
    (database, PgConnection::connect(&url).await.unwrap())
}

#[tokio::test]
async fn retention_can_delete_events_and_move_no_cursor() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish(&[event("s"), event("s")]).await;
        let head = outbox.head_after(published[1].position).await;
        let one = hold(&outbox, "one").await;
        assert_eq!(go(&outbox, &one, head.end()).await, Owned::Yes);
        let (database, mut connection) = as_role(&outbox, Duty::Retention, "retention").await;
        let state = schema_state(&mut connection, &outbox.settings.schema).await;
        assert_eq!(state.unwrap(), SchemaState::Current);
        let ttl = Duration::from_secs(30);
        let lease = database.acquire_lease(RETENTION_LEASE, "me", ttl).await;
        let lease = lease.unwrap().unwrap();
        assert_eq!(database.renew_lease(&lease, ttl).await.unwrap(), Owned::Yes);
        database.head().await.unwrap();
        assert_eq!(database.prunable(Duration::ZERO).await.unwrap().rows, 2);
        let pruned = database.prune(Duration::ZERO, Position::BEGINNING).await;
        assert_eq!(pruned.unwrap().rows, 2);
        assert_eq!(database.lease_holders().await.unwrap().len(), 2);
        database.release_lease(&lease).await.unwrap();
        for statement in [
            "update {s}.outbox set topic = 'x'",
            "insert into {s}.outbox (topic, payload) values ('a.b', '{}')",
            "select {s}.outbox_publish('a.b', 't', 's')",
            "update {s}.outbox_cursors set seq = 0",
            "delete from {s}.outbox_cursors",
            "select * from {s}.outbox_dead_letters",
            "delete from {s}.leases",
            "select {s}.outbox_record('seek', 'a', 'me', '{}')",
        ] {
            denied(&outbox, &mut connection, statement).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_operator_can_write_what_orders_are_made_of_and_nothing_else() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish(&[event("s"), event("s"), event("s")]).await;
        let head = outbox.head_after(published[2].position).await;
        let one = hold(&outbox, "one").await;
        let letters = [0, 1].map(|n: usize| dead_letter(published[n].position));
        let done = settlement(head.end(), letters, Then::Go);
        assert_eq!(settle(&outbox, &one, &done).await, Owned::Yes);
        let (database, mut connection) = as_role(&outbox, Duty::Operator, "operator").await;
        let state = schema_state(&mut connection, &outbox.settings.schema).await;
        assert_eq!(state.unwrap(), SchemaState::Current);
        database.pause("a", None, "me").await.unwrap();
        database.resume("a", "me").await.unwrap();
        for target in [
            SeekTarget::Head,
            SeekTarget::Time(Moment::Ago(Duration::from_secs(9))),
        ] {
            database.seek("a", target, "me", false).await.unwrap();
        }
        let of = |id| DeadLetterFilter { ids: vec![id], ..DeadLetterFilter::default() };
        let replayed = database.replay_dead_letters(&of(1), &BTreeMap::new(), "me", false).await;
        assert!(replayed.unwrap().operation.is_some());
        let discarded = database.discard_dead_letters(&of(2), "me", false).await;
        assert!(discarded.unwrap().operation.is_some());
        assert_eq!(database.dead_letters(&of(1), true, 9).await.unwrap().len(), 1);
        database.dead_letter(1).await.unwrap().unwrap();
        assert_eq!(database.sinks_with_dead_letters().await.unwrap(), ["a"]);
        assert_eq!(database.cursors().await.unwrap().len(), 1);
        assert!(database.retention_hold().await.unwrap().is_some());
        database.prunable(Duration::ZERO).await.unwrap();
        assert_eq!(database.lease_holders().await.unwrap().len(), 1);
        assert!(database.obedience("a").await.unwrap().is_some());
        assert_eq!(database.operations(9).await.unwrap().len(), 6);
        outbox.database.release_lease(&one).await.unwrap();
        database.forget("a", "me", false).await.unwrap();
        for statement in [
            "update {s}.outbox set topic = 'x'",
            "delete from {s}.outbox",
            "select {s}.outbox_publish('a.b', 't', 's')",
            "update {s}.outbox_cursors set seq = 0",
            "update {s}.outbox_cursors set token = 0",
            "insert into {s}.outbox_cursors (stream, consumer, txid, seq, token) values ('outbox', 'sink:b', '1', 1, 1)",
            "update {s}.outbox_dead_letters set payload = '{}'",
            "delete from {s}.outbox_dead_letters",
            "insert into {s}.outbox_operations (command, by_whom) values ('seek', 'me')",
            "update {s}.outbox_operations set by_whom = 'somebody else'",
            "delete from {s}.outbox_operations",
            "update {s}.leases set holder = null",
            "delete from {s}.leases",
            "create table {s}.x ()",
        ] {
            denied(&outbox, &mut connection, statement).await;
        }
    })
    .await;
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
