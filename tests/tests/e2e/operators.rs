//! What an operator orders while the sink runs takes effect at once, through the cursor's owner.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::fixture::{
    Scene, assert_each_once, eventually, in_file, publish, publish_in_one, scripted, within,
};

/// An order is seen within the 50 ms between two looks at the head. A process must start for it, and
/// the machine is busy with other tests; but it is far from any pause that a sink makes by itself.
const AT_ONCE: Duration = Duration::from_secs(3);

/// What operators have done so far, the last first.
async fn operations(scene: &Scene) -> Vec<Value> {
    let shown = scene.sinks(&["status", "--json"]).await.succeeded();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["operations"].as_array().unwrap().clone()
}

async fn taken(scene: &Scene, count: usize) {
    let file = scene.path("x.ndjson");
    let look = async || (in_file(&file).len() >= count).then_some(());
    within(AT_ONCE, &format!("{count} events are taken"), look).await;
    assert_eq!(in_file(&file).len(), count);
}

#[tokio::test]
async fn a_seek_takes_effect_at_once_also_in_the_middle_of_a_long_pause() {
    let scene = Scene::new().await;
    let fault = "{ does = \"unavailable\", while = \"out\" }";
    let settings = "retry = { initial = \"1h\", max = \"1h\" }";
    scene.configure(&scripted("x", settings, fault));
    let mut worker = scene.run_scripted("worker");
    let published = publish_in_one(scene.database(), 50, "", &[]).await;
    scene.up_to_date("x").await;

    // Back to a position, to a time and to the beginning, with nothing else going on.
    let middle = published[29].position.to_string();
    for (to, again) in [(middle.as_str(), 20), ("1h", 50), ("beginning", 50)] {
        let before = in_file(&scene.path("x.ndjson")).len();
        let told = scene.sinks(&["seek", "x", "--to", to]).await.succeeded();
        assert!(told.contains("has obeyed"), "{told}");
        taken(&scene, before + again).await;
    }

    // Forth over what can't be delivered, in a pause of an hour.
    scene.break_it("out");
    publish(scene.database(), 10).await;
    let backing_off = |row: &Value| row["state"] == "backing-off";
    scene.status_when("x", backing_off).await;
    let since = Instant::now();
    scene
        .sinks(&["seek", "x", "--to", "head"])
        .await
        .succeeded();
    scene.up_to_date("x").await;
    assert!(since.elapsed() < AT_ONCE * 2, "{:?}", since.elapsed());
    scene.mend_it("out");
    let last = publish(scene.database(), 5).await;
    taken(&scene, 50 + 20 + 50 + 50 + 5).await;
    let file = in_file(&scene.path("x.ndjson"));
    assert_each_once("after the seek", &file[170..], &last[60..]);
    worker.stop().await;
    let record = operations(&scene).await;
    assert!(
        record
            .iter()
            .all(|one| one["command"] == "seek" && one["sink"] == "x")
    );
    assert_eq!(record.len(), 4, "{record:?}");
}

#[tokio::test]
async fn a_paused_sink_stands_still_through_a_restart_until_it_is_resumed() {
    let scene = Scene::new().await;
    scene.configure(&scripted("x", "", ""));
    let mut worker = scene.run_scripted("worker");
    publish(scene.database(), 10).await;
    scene.up_to_date("x").await;
    let pause = [
        "pause",
        "x",
        "--reason",
        "the warehouse moves",
        "--by",
        "jo",
    ];
    let told = scene.sinks(&pause).await.succeeded();
    assert!(told.contains("has obeyed"), "{told}");
    publish(scene.database(), 10).await;
    sleep(Duration::from_millis(500)).await;
    worker.stop().await;
    let mut worker = scene.run_scripted("again");
    worker.says("paused", 1).await;
    let row = scene.status_when("x", |row| row["lag_events"] == 10).await;
    assert_eq!(row["state"], "paused", "{row}");
    assert_eq!(row["paused"]["by"], "jo", "{row}");
    assert_eq!(row["paused"]["reason"], "the warehouse moves", "{row}");
    assert_eq!(in_file(&scene.path("x.ndjson")).len(), 10);

    let told = scene
        .sinks(&["resume", "x", "--by", "max"])
        .await
        .succeeded();
    assert!(told.contains("has obeyed"), "{told}");
    taken(&scene, 20).await;
    worker.stop().await;
    let record = operations(&scene).await;
    let (first, last) = (&record[1], &record[0]);
    assert_eq!(
        (&first["command"], &first["by"]),
        (&"pause".into(), &"jo".into())
    );
    assert_eq!(
        (&last["command"], &last["by"]),
        (&"resume".into(), &"max".into())
    );
}

#[tokio::test]
async fn a_pause_lets_the_delivery_in_hand_finish_and_resume_ends_a_backoff() {
    let scene = Scene::new().await;
    let faults =
        "{ does = \"hold\", while = \"held\" }, { does = \"unavailable\", while = \"out\" }";
    let settings = "retry = { initial = \"1h\", max = \"1h\" }";
    scene.configure(&scripted("x", settings, faults));
    scene.break_it("held");
    let mut worker = scene.run_scripted("worker");
    publish_in_one(scene.database(), 10, "", &[]).await;
    let begun = async || (!scene.calls("x").is_empty()).then_some(());
    eventually("a delivery is in hand", begun).await;
    let told = scene.sinks(&["pause", "x"]).await.succeeded();
    assert!(
        told.contains("finishes the delivery in hand first"),
        "{told}"
    );
    publish(scene.database(), 10).await;
    scene.mend_it("held");
    worker.says("paused", 1).await;
    taken(&scene, 10).await;
    // Other tests hold transactions open in the same cluster now and then.
    scene.status_when("x", |row| row["lag_events"] == 10).await;

    scene.break_it("out");
    scene.sinks(&["resume", "x"]).await.succeeded();
    scene
        .status_when("x", |row| row["state"] == "backing-off")
        .await;
    scene.mend_it("out");
    scene.sinks(&["resume", "x"]).await.succeeded();
    taken(&scene, 20).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_forgotten_sink_begins_anew() {
    let scene = Scene::new().await;
    scene.configure(&scripted("x", "", ""));
    let mut worker = scene.run_scripted("worker");
    publish(scene.database(), 10).await;
    scene.up_to_date("x").await;
    let refused = scene.sinks(&["forget", "x"]).await;
    assert!(
        refused.code.is_some_and(|code| code != 0),
        "a worker holds it: {refused:?}"
    );
    worker.stop().await;
    scene.sinks(&["forget", "x"]).await.succeeded();
    assert_eq!(scene.status("x").await["state"], "never-run");
    let mut worker = scene.run_scripted("again");
    taken(&scene, 20).await;
    worker.stop().await;
}
