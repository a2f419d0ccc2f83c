//! A sink that takes only some events comes along with those it does not take.

use super::fixture::{Scene, eventually, in_file};

const NOISE: i32 = 120_000;

async fn published_noise(scene: &Scene) -> String {
    let mut connection = scene.connect().await;
    let sql = "insert into outbox (topic, payload)
               select 'noise.made', jsonb_build_object('id', 'evt_' || n, 'type', 'noise.made',
                   'tenantId', 't', 'subject', 's', 'time', '2026-09-24T10:15:02.114Z', 'data', n)
               from generate_series(1, $1) as n";
    sqlx::query(sql)
        .bind(NOISE)
        .execute(&mut connection)
        .await
        .unwrap();
    let sql =
        "select txid::text || '.' || seq from outbox order by txid desc, outbox.seq desc limit 1";
    sqlx::query_scalar(sql)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

/// How many rows of the outbox were read so far, by sessions that have ended.
async fn rows_read(scene: &Scene) -> i64 {
    let mut connection = scene.connect().await;
    let sql = "select seq_tup_read + coalesce(idx_tup_fetch, 0)::bigint
               from pg_stat_user_tables where relname = 'outbox'";
    sqlx::query_scalar(sql)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_filter_that_matches_nothing_moves_the_cursor_and_a_restart_scans_nothing_again() {
    // A13
    let scene = Scene::new().await;
    scene.configure(
        "[cursor]\nidle_save = \"200ms\"\n\
         [sinks.x]\nevents = [\"wanted.*\"]\n[sinks.x.file]\npath = \"x.ndjson\"\n",
    );
    let newest = published_noise(&scene).await;
    let mut worker = scene.run("worker");
    let row = scene
        .status_when("x", |row| row["position"] == newest.as_str())
        .await;
    assert_eq!(
        (&row["state"], &row["lag_events"]),
        (&"up-to-date".into(), &0.into())
    );
    worker.stop().await;
    scene.sessions_ended().await;
    let first = rows_read(&scene).await;
    assert!(first >= i64::from(NOISE), "{first} rows read");

    let mut worker = scene.run("worker");
    let mut connection = scene.connect().await;
    let sql = "select outbox_publish('wanted.thing', 't', 's')
               from outbox_publish('noise.made', 't', 's')";
    let id: String = sqlx::query_scalar(sql)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    let file = scene.path("x.ndjson");
    let look = async || in_file(&file).first().cloned();
    assert_eq!(eventually("the wanted one arrives", look).await.id, id);
    scene.up_to_date("x").await;
    worker.stop().await;
    scene.sessions_ended().await;
    let again = rows_read(&scene).await - first;
    assert!(again < i64::from(NOISE) / 10, "{again} rows read again");
    assert_eq!(in_file(&file).len(), 1, "and nothing else is delivered");
}
