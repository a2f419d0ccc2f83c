//! A cluster that is another one than it was: restored from a dump, put back from a copy, or moved
//! to later transaction ids. Nothing is skipped in silence (A23).

use outbox_tests::servers::{Database, Postgres, Shutdown};
use sqlx::{AssertSqlSafe, Executor};

use super::fixture::{
    Delivered, Scene, assert_complete_in_order, assert_each_once, in_file, publish,
};

const FILE: &str = "[sinks.x.file]\npath = \"x.ndjson\"\n";

/// Uses up so many transaction ids.
async fn burn(database: &Database, count: u32) {
    let sql = format!(
        "do $$ begin for n in 1..{count} loop perform pg_current_xact_id(); commit; end loop; end $$"
    );
    let mut connection = database.connect().await;
    connection.execute(AssertSqlSafe(sql)).await.unwrap();
}

#[tokio::test]
async fn an_older_copy_that_is_put_back_under_a_running_worker_is_delivered_from_its_own_cursor() {
    let mut postgres = Postgres::newest().await;
    let scene = Scene::on(&postgres).await;
    scene.configure(FILE);
    let file = scene.path("x.ndjson");
    let mut worker = scene.run("worker");
    publish(scene.database(), 30).await;
    scene.up_to_date("x").await;
    postgres.stop(Shutdown::Fast).await;
    postgres.back_up().await;

    postgres.start_again().await;
    let later = publish(scene.database(), 20).await;
    scene.up_to_date("x").await;
    assert_complete_in_order("before", &in_file(&file), &later);
    postgres.stop(Shutdown::Fast).await;
    postgres.put_back().await;

    // New events get the positions that those had which the copy does not know.
    postgres.start_again().await;
    let delivered = in_file(&file).len();
    let now = publish(scene.database(), 40).await;
    assert!(now[30].position < later[49].position, "they overlap");
    scene.up_to_date("x").await;
    worker.stop().await;
    let taken = in_file(&file);
    assert_each_once("what is published now", &taken[delivered..], &now[30..]);
}

#[tokio::test]
async fn transaction_ids_beyond_32_bits_are_delivered_in_order_and_once() {
    let mut postgres = Postgres::oldest().await;
    let scene = Scene::on(&postgres).await;
    scene.configure(FILE);
    let file = scene.path("x.ndjson");
    let epoch = |event: &Delivered| event.position.txid.0 >> 32;
    let mut worker = scene.run("worker");
    publish(scene.database(), 30).await;
    scene.up_to_date("x").await;

    // Under a running worker the ids go on in epoch 1, in the way that they do with time.
    postgres.end_epoch_soon(200).await;
    let mut last = publish(scene.database(), 10).await;
    assert_eq!(epoch(&last[39]), 0);
    burn(scene.database(), 150).await;
    last = publish(scene.database(), 500).await;
    assert_eq!((epoch(&last[40]), epoch(&last[539])), (0, 1));
    scene.up_to_date("x").await;
    assert_each_once("from epoch 0 to 1", &in_file(&file), &last);

    // Or somebody moves them on, and some events are not delivered yet.
    worker.stop().await;
    publish(scene.database(), 20).await;
    postgres.stop(Shutdown::Fast).await;
    postgres.reset_wal(&["--epoch", "7"]).await;
    postgres.start_again().await;
    let published = publish(scene.database(), 30).await;
    assert_eq!((epoch(&published[559]), epoch(&published[560])), (1, 7));
    let mut worker = scene.run("again");
    scene.up_to_date("x").await;
    worker.stop().await;
    assert_each_once("from epoch 1 to 7", &in_file(&file), &published);
}
