//! When there is too much poison the sink pauses instead of setting it all aside, and a sink that
//! must halt pauses at the first one.

use super::fixture::{
    Scene, assert_complete_by_key, assert_each_once, in_file, publish_in_one, scripted,
};

const FAULT: &str = "{ type = \"poison.pill\", does = \"refuse\", while = \"broken\" }";
const RETRY: &str = "retry = { initial = \"20ms\", max = \"50ms\" }";

#[tokio::test]
async fn the_fuse_pauses_a_sink_before_one_dead_letter_too_many() {
    let scene = Scene::new().await;
    let poison = "poison = { attempts = 2, max_dead_letters = 3, window = \"1h\" }";
    scene.configure(&scripted("x", &format!("{RETRY}\n{poison}"), FAULT));
    scene.break_it("broken");
    let pills = [5, 10, 15, 20, 25];
    let published = publish_in_one(scene.database(), 40, "poison.pill", &pills).await;
    let mut worker = scene.run_scripted("worker");
    // What comes later shows that others are taken.
    scene
        .status_when("x", |row| row["suspect"].is_object())
        .await;
    let mut later = publish_in_one(scene.database(), 10, "", &[])
        .await
        .split_off(40);
    let row = scene.status_when("x", |row| row["state"] == "paused").await;
    assert_eq!(row["paused"]["by"], "sinks", "{row}");
    let reason = row["paused"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("the fuse has blown: more than 3 dead letters"),
        "{reason}"
    );
    assert!(reason.contains(&published[19].id), "{reason}");
    assert_eq!(scene.dead_letters("x").await.len(), 3);
    // The cursor is before the one that would have been the fourth.
    assert_eq!(row["position"], published[18].position.to_string(), "{row}");

    // A person has mended the destination and lets it go on: nothing more is set aside.
    scene.mend_it("broken");
    scene.sinks(&["resume", "x"]).await.succeeded();
    scene.up_to_date("x").await;
    worker.stop().await;
    assert_eq!(scene.dead_letters("x").await.len(), 3);
    let dead = [4, 9, 14];
    let others = published
        .iter()
        .enumerate()
        .filter(|(n, _)| !dead.contains(n));
    let mut others: Vec<_> = others.map(|(_, event)| event.clone()).collect();
    others.append(&mut later);
    assert_complete_by_key("the others", &in_file(&scene.path("x.ndjson")), &others);
}

#[tokio::test]
async fn a_sink_that_must_halt_pauses_at_the_first_poison_and_skips_nothing() {
    let scene = Scene::new().await;
    let poison = "on_poison = \"halt\"\npoison = { attempts = 2 }";
    scene.configure(&scripted("x", &format!("{RETRY}\n{poison}"), FAULT));
    scene.break_it("broken");
    let published = publish_in_one(scene.database(), 20, "poison.pill", &[7]).await;
    let mut worker = scene.run_scripted("worker");
    let row = scene.status_when("x", |row| row["state"] == "paused").await;
    let reason = row["paused"]["reason"].as_str().unwrap();
    assert!(reason.contains("on_poison = \"halt\""), "{reason}");
    assert!(
        reason.contains(&published[6].id) && reason.contains("SCRIPTED"),
        "{reason}"
    );
    assert_eq!(row["position"], published[5].position.to_string(), "{row}");
    let table = scene.sinks(&["status"]).await.succeeded();
    assert!(table.contains("halt"), "{table}");
    assert!(scene.dead_letters("x").await.is_empty());

    scene.mend_it("broken");
    scene.sinks(&["resume", "x"]).await.succeeded();
    scene.up_to_date("x").await;
    worker.stop().await;
    assert!(scene.dead_letters("x").await.is_empty());
    let taken = in_file(&scene.path("x.ndjson"));
    assert_complete_by_key("all", &taken, &published);
    let before: Vec<_> = published[..6].to_vec();
    assert_each_once("before it", &taken[..6], &before);
}
