//! A cluster whose data is put back from an older copy, or whose transaction ids move to a later
//! epoch: nothing is skipped in silence (A23).

use outbox_tests::servers::{Postgres, Shutdown};

use super::fixture::{
    Delivered, Scene, assert_complete_in_order, assert_each_once, burn, in_file, publish, published,
};

const FILE: &str = "[sinks.x.file]\npath = \"x.ndjson\"\n";

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

#[tokio::test]
async fn a_cursor_beyond_the_horizon_stops_its_sink_until_somebody_says_where_to_go_on() {
    // The data is put back and the cursors are not, as when they are copied by themselves.
    let mut postgres = Postgres::newest().await;
    let scene = Scene::on(&postgres).await;
    scene.configure(FILE);
    let file = scene.path("x.ndjson");
    let mut worker = scene.run("before");
    let before = publish(scene.database(), 30).await;
    scene.up_to_date("x").await;
    worker.stop().await;
    postgres.stop(Shutdown::Fast).await;
    postgres.back_up().await;
    postgres.start_again().await;
    let mut worker = scene.run("before");
    burn(scene.database(), 1_000).await;
    publish(scene.database(), 20).await;
    scene.up_to_date("x").await;
    worker.stop().await;
    let cursor = scene.cursor("x").await;
    postgres.stop(Shutdown::Fast).await;
    postgres.put_back().await;
    postgres.start_again().await;
    let mut connection = scene.connect().await;
    let sql = "update outbox_cursors set txid = $1::text::xid8, seq = $2";
    sqlx::query(sql)
        .bind(cursor["txid"].as_str())
        .bind(cursor["seq"].as_i64())
        .execute(&mut connection)
        .await
        .unwrap();

    let taken = in_file(&file).len();
    let mut worker = scene.run("after");
    worker.says("not delivering: a person must decide", 1).await;
    let row = scene
        .status_when("x", |row| row["last_error"].is_string())
        .await;
    let told = row["last_error"].as_str().unwrap();
    assert!(told.contains("`sinks seek`"), "{told}");
    publish(scene.database(), 10).await;
    assert_eq!(in_file(&file).len(), taken);

    let last = before[29].position.to_string();
    scene.sinks(&["seek", "x", "--to", &last]).await.succeeded();
    scene.up_to_date("x").await;
    worker.stop().await;
    let now = published(scene.database()).await;
    assert_each_once(
        "what the copy had not yet",
        &in_file(&file)[taken..],
        &now[30..],
    );
}
