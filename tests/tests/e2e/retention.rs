//! Retention deletes what every sink has, and nothing else: not by age alone, and not what a sink
//! that is stopped has still to get.

use std::time::Duration;

use serde_json::Value;
use sqlx::Connection;
use tokio::time::sleep;

use super::fixture::{Scene, assert_each_once, eventually, in_file, publish, published, scripted};

const MIN_AGE: Duration = Duration::from_secs(1);
const RETENTION: &str = "[retention]\nmin_age = \"1s\"\ninterval = \"1s\"\n";

/// Long enough for a pass over what is old enough by then.
async fn a_few_passes() {
    sleep(MIN_AGE + Duration::from_millis(2_500)).await;
}

async fn rows_left(scene: &Scene, count: i64) {
    let look = async || (scene.outbox_rows().await == count).then_some(());
    eventually(&format!("{count} rows are left"), look).await;
}

#[tokio::test]
async fn a_transaction_that_stays_open_longer_than_the_retention_age_is_delivered_and_then_pruned()
{
    // A2
    let scene = Scene::new().await;
    let hold = "{ type = \"late.event\", does = \"hold\", while = \"held\" }";
    scene.configure(&format!("{RETENTION}{}", scripted("x", "", hold)));
    scene.break_it("held");
    let mut worker = scene.run_scripted("worker");
    publish(scene.database(), 10).await;
    scene.up_to_date("x").await;
    rows_left(&scene, 0).await;

    let mut connection = scene.connect().await;
    let mut open = connection.begin().await.unwrap();
    let sql = "select outbox_publish('late.event', 't', 's')";
    let late: String = sqlx::query_scalar(sql).fetch_one(&mut *open).await.unwrap();
    a_few_passes().await;
    open.commit().await.unwrap();
    // Old enough by its time, and on its way to the destination.
    let begun = async || (scene.calls("x").last()?.events == 1).then_some(());
    eventually("its delivery begins", begun).await;
    a_few_passes().await;
    assert_eq!(
        scene.outbox_rows().await,
        1,
        "it is kept until it has arrived"
    );

    scene.mend_it("held");
    rows_left(&scene, 0).await;
    let taken = in_file(&scene.path("x.ndjson"));
    assert_eq!((taken.len(), &taken[10].id), (11, &late));
    worker.stop().await;
}

#[tokio::test]
async fn nothing_is_pruned_that_a_stopped_sink_has_still_to_get() {
    // H21
    let scene = Scene::new().await;
    let (runs, stops) = (scripted("runs", "", ""), scripted("stops", "", ""));
    scene.configure(&format!("{RETENTION}{runs}{stops}"));
    let mut worker = scene.run_scripted("both");
    publish(scene.database(), 20).await;
    scene.up_to_date("runs").await;
    scene.up_to_date("stops").await;
    worker.stop().await;

    scene.configure(&format!("{RETENTION}{runs}"));
    let mut worker = scene.run_scripted("one");
    publish(scene.database(), 30).await;
    scene.up_to_date("runs").await;
    a_few_passes().await;
    rows_left(&scene, 30).await;
    let kept = published(scene.database()).await;
    let shown = scene.sinks(&["status", "--json"]).await.succeeded();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["retention"]["consumer"], "sink:stops", "{shown}");
    assert_eq!(shown["retention"]["events"], 30, "{shown}");
    worker.stop().await;

    // It starts again: everything that it had not got is there.
    scene.configure(&format!("{RETENTION}{runs}{stops}"));
    let mut worker = scene.run_scripted("again");
    scene.up_to_date("stops").await;
    let taken = in_file(&scene.path("stops.ndjson"));
    assert_each_once("the sink that was stopped", &taken[20..], &kept);
    rows_left(&scene, 0).await;
    worker.stop().await;
}

#[tokio::test]
async fn what_a_sink_that_is_gone_for_good_holds_back_is_freed_by_forgetting_it() {
    let scene = Scene::new().await;
    let (runs, gone) = (scripted("runs", "", ""), scripted("gone", "", ""));
    scene.configure(&format!("{RETENTION}{runs}{gone}"));
    let mut worker = scene.run_scripted("both");
    publish(scene.database(), 20).await;
    scene.up_to_date("runs").await;
    scene.up_to_date("gone").await;
    let refused = scene.sinks(&["forget", "gone"]).await;
    assert!(
        !matches!(refused.code, Some(0)),
        "a worker holds it: {refused:?}"
    );
    worker.stop().await;

    scene.configure(&format!("{RETENTION}{runs}"));
    let mut worker = scene.run_scripted("one");
    publish(scene.database(), 10).await;
    scene.up_to_date("runs").await;
    a_few_passes().await;
    rows_left(&scene, 10).await;
    let table = scene.sinks(&["status"]).await.succeeded();
    assert!(table.contains("sink gone is the furthest back"), "{table}");
    scene.sinks(&["forget", "gone"]).await.succeeded();
    rows_left(&scene, 0).await;
    worker.stop().await;
}

#[tokio::test]
async fn an_operator_prunes_by_command() {
    let scene = Scene::new().await;
    let config = "[retention]\nmin_age = \"0s\"\n[sinks.x.file]\npath = \"x\"\n";
    // Without the role the worker does not prune by itself when it starts.
    scene.configure_worker("lease_ttl = \"3s\"\nroles = [\"sinks\"]", config);
    let mut worker = scene.run("worker");
    publish(scene.database(), 20).await;
    scene.up_to_date("x").await;
    worker.stop().await;
    publish(scene.database(), 10).await;
    let planned = scene.sinks(&["prune", "--dry-run"]).await.succeeded();
    assert!(planned.contains("20 events would be deleted"), "{planned}");
    assert_eq!(scene.outbox_rows().await, 30);
    let done = scene.sinks(&["prune"]).await.succeeded();
    assert!(done.contains("deleted 20 events"), "{done}");
    assert_eq!(scene.outbox_rows().await, 10);
}
