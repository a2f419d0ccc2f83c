//! A destination that stores its position with the data: the example for a table in another
//! Postgres.

use outbox_tests::servers::{Database, PostgresVersion, shared};
use sqlx::{AssertSqlSafe, Connection};

use super::fixture::{Scene, eventually, example_postgres_table, publish, published};

/// The warehouse: its table counts how often each row was written.
async fn warehouse() -> Database {
    let database = shared::postgres(PostgresVersion::Newest)
        .await
        .database()
        .await;
    run(
        &database,
        "create table events (
             key text primary key, id text not null, type text not null,
             tenant_id text not null, subject text not null,
             txid bigint not null, seq bigint not null, body text not null,
             writes integer not null default 1
         );
         create function count_writes() returns trigger language plpgsql as
             'begin new.writes := old.writes + 1; return new; end';
         create trigger count_writes before update on events
             for each row execute function count_writes()",
    )
    .await;
    database
}

async fn run(database: &Database, sql: &str) {
    let mut connection = database.connect().await;
    let done = sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await;
    done.expect("the statement is right");
    connection
        .close()
        .await
        .expect("a connection can be closed");
}

/// The ids, in the outbox's order, and how often each was written.
async fn rows(database: &Database) -> Vec<(String, i32)> {
    let mut connection = database.connect().await;
    let rows = sqlx::query_as("select id, writes from events order by txid, seq")
        .fetch_all(&mut connection)
        .await;
    connection
        .close()
        .await
        .expect("a connection can be closed");
    rows.expect("the table is there")
}

async fn arrived(database: &Database, count: usize) {
    eventually("all events are rows", async || {
        (rows(database).await.len() >= count).then_some(())
    })
    .await;
}

fn settings(warehouse: &Database) -> String {
    format!(
        "[sinks.mirror.table]\nurl = \"{}\"\ncreate_tables = true\n\
         [sinks.mirror.batch]\nmax_events = 20\n",
        warehouse.url()
    )
}

#[tokio::test]
async fn whatever_dies_and_whenever_each_event_is_written_once() {
    let (scene, warehouse) = (Scene::new().await, warehouse().await);
    let program = example_postgres_table();
    scene.configure_worker("lease_ttl = \"1s\"\n", &settings(&warehouse));
    let checked = scene
        .finish(program, &["check", "--online"])
        .await
        .succeeded();
    assert!(checked.contains("sink mirror (table)"), "{checked}");

    let mut expected = 0;
    for death in 0..6 {
        let mut worker = scene.start(&format!("w{death}"), program, &["run"]);
        let before = rows(&warehouse).await.len();
        expected = publish(scene.database(), 300).await.len();
        eventually("some more are rows", async || {
            (rows(&warehouse).await.len() > before).then_some(())
        })
        .await;
        worker.kill().await;
    }
    let mut worker = scene.start("last", program, &["run"]);
    arrived(&warehouse, expected).await;
    worker.stop().await;

    let events = published(scene.database()).await;
    let expected: Vec<_> = events.iter().map(|event| (event.id.clone(), 1)).collect();
    assert_eq!(
        rows(&warehouse).await,
        expected,
        "every event, and each of them once"
    );
}

#[tokio::test]
async fn a_warehouse_that_was_restored_from_a_backup_is_not_skipped_over() {
    let (scene, warehouse) = (Scene::new().await, warehouse().await);
    let program = example_postgres_table();
    scene.configure(&settings(&warehouse));
    let mut worker = scene.start("first", program, &["run"]);
    publish(scene.database(), 30).await;
    arrived(&warehouse, 30).await;
    worker.stop().await;

    run(
        &warehouse,
        "delete from events; update outbox_progress set progress = null",
    )
    .await;
    publish(scene.database(), 10).await;
    let mut worker = scene.start("second", program, &["run"]);
    let reason = async || {
        let shown = scene
            .finish(program, &["status", "--json"])
            .await
            .succeeded();
        shown
            .contains("it has lost data or is another one")
            .then_some(shown)
    };
    let shown = eventually("the status says why", reason).await;
    assert!(shown.contains("sinks seek"), "it says what to do: {shown}");
    assert_eq!(rows(&warehouse).await.len(), 0, "nothing is sent meanwhile");

    let seek = ["seek", "mirror", "--to", "beginning"];
    scene.finish(program, &seek).await.succeeded();
    arrived(&warehouse, 40).await;
    worker.stop().await;
    let events = published(scene.database()).await;
    let ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
    let there: Vec<_> = rows(&warehouse)
        .await
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(there, ids);
}
