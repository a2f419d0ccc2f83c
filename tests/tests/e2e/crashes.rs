//! A sink that panics on one event, or that takes the process down with it (H6): the event is found
//! as poison all the same, and its neighbours are delivered in order.

use std::time::Duration;

use super::fixture::{
    Delivered, Scene, assert_complete_by_key, assert_each_once, in_file, publish_in_one, scripted,
    supervised, within,
};

/// A death costs the rest of a lease, and a start.
const PATIENCE: Duration = Duration::from_secs(90);

/// A scene whose sink meets one event among sixteen with this fault, that event and the others.
async fn scene(does: &str) -> (Scene, Delivered, Vec<Delivered>) {
    let scene = Scene::new().await;
    let settings = "retry = { initial = \"20ms\", max = \"100ms\" }\npoison = { attempts = 2 }";
    let fault = format!("{{ type = \"poison.pill\", does = \"{does}\" }}");
    let sinks = scripted("x", settings, &fault);
    scene.configure_worker("lease_ttl = \"1s\"", &sinks);
    let mut published = publish_in_one(scene.database(), 16, "poison.pill", &[11]).await;
    let poison = published.remove(10);
    (scene, poison, published)
}

async fn assert_set_aside(scene: &Scene, poison: &Delivered, code: &str, error: &str) {
    let dead = scene.dead_letters("x").await;
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["event_id"], poison.id.as_str(), "{dead:?}");
    assert_eq!(dead[0]["code"], code, "{dead:?}");
    let said = dead[0]["error"].as_str().unwrap();
    assert!(said.contains(error), "{dead:?}");
}

#[tokio::test]
async fn an_event_on_which_the_sink_panics_is_set_aside_and_the_worker_lives() {
    let (scene, poison, others) = scene("panic").await;
    let mut worker = scene.run_scripted("worker");
    scene.up_to_date("x").await;
    worker.stop().await;
    assert_set_aside(&scene, &poison, "FAILED", "panicked: as the script says").await;
    let taken = in_file(&scene.path("x.ndjson"));
    assert_complete_by_key("the neighbours", &taken, &others);
    assert_eq!(taken.len(), others.len(), "each arrives once");
}

#[tokio::test]
async fn an_event_on_which_the_process_aborts_is_set_aside_after_a_few_deaths() {
    let (scene, poison, others) = scene("abort").await;
    let set_aside = async {
        let look = async || (!scene.dead_letters("x").await.is_empty()).then_some(());
        within(PATIENCE, "the event is set aside", look).await;
        scene.up_to_date("x").await;
    };
    let deaths = supervised(|| scene.run_scripted("worker"), set_aside).await;
    // One that says nothing, four to find it, and two attempts.
    assert!((6..=8).contains(&deaths), "{deaths} deaths");
    assert_set_aside(&scene, &poison, "CRASHED", "the process died").await;
    let taken = in_file(&scene.path("x.ndjson"));
    assert_complete_by_key("the neighbours", &taken, &others);

    // And from then on the worker lives.
    let mut worker = scene.run_scripted("after");
    let published = publish_in_one(scene.database(), 10, "", &[]).await;
    scene.up_to_date("x").await;
    worker.stop().await;
    let taken = in_file(&scene.path("x.ndjson"));
    let after = published.len() - 10;
    assert_each_once(
        "what came after",
        &taken[taken.len() - 10..],
        &published[after..],
    );
}
