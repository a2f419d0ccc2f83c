//! A stop with work in hand is never an attempt (H20): not against an event under suspicion, and
//! not in the search for one that kills the process.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::fixture::{Running, Scene, eventually, in_file, publish_one, scripted};

const FAULTS: &str = "{ type = \"poison.pill\", does = \"hold\", while = \"held\" }, \
                      { type = \"poison.pill\", does = \"refuse\", while = \"broken\" }";

/// Starts a worker and waits until it has the poison in hand, which it does not let go of.
async fn in_hand(scene: &Scene, worker: &mut Running) {
    scene.break_it("held");
    let look = async || {
        let before = scene.calls("x").len();
        sleep(Duration::from_millis(500)).await;
        (before > 0 && scene.calls("x").len() == before).then_some(())
    };
    eventually("the delivery is in hand", look).await;
    assert!(worker.runs());
}

/// What the cursor row holds against the event.
async fn held_against_it(scene: &Scene) -> Value {
    let row = scene.cursor("x").await;
    let columns = [
        "attempts",
        "suspect_attempts",
        "suspect_since",
        "suspect_stage",
    ];
    columns.map(|name| row[name].clone()).into_iter().collect()
}

/// Stops twice while a suspect is in hand that may have so many attempts.
async fn stopped_with_a_suspect_in_hand(attempts: u32) {
    let scene = Scene::new().await;
    let worker = "lease_ttl = \"2s\"\nshutdown_timeout = \"1s\"";
    let settings = format!(
        "retry = {{ initial = \"50ms\", max = \"100ms\" }}\npoison = {{ attempts = {attempts} }}"
    );
    scene.configure_worker(worker, &scripted("x", &settings, FAULTS));
    scene.break_it("broken");
    publish_one(scene.database(), "poison.pill", "s").await;
    let mut worker = scene.run_scripted("first");
    let suspected = |row: &Value| row["suspect"]["attempts"].as_u64() >= Some(2);
    scene.status_when("x", suspected).await;

    // Refused while the worker stops.
    in_hand(&scene, &mut worker).await;
    let before = held_against_it(&scene).await;
    worker.signal(Signal::TERM);
    worker.says("finishing what is in hand", 1).await;
    scene.mend_it("held");
    assert_eq!(worker.ends().await.code(), Some(0));
    assert_eq!(held_against_it(&scene).await, before);

    // Cut off since it takes too long.
    let mut worker = scene.run_scripted("second");
    in_hand(&scene, &mut worker).await;
    let before = held_against_it(&scene).await;
    worker.signal(Signal::TERM);
    let ended = timeout(Duration::from_secs(10), worker.ends()).await;
    assert_eq!(ended.unwrap().code(), Some(0));
    assert_eq!(held_against_it(&scene).await, before);
    assert_eq!(scene.holder("x").await, None, "the lease is released");

    // Nothing was held against it: it is delivered once the destination takes it.
    scene.mend_it("held");
    scene.mend_it("broken");
    let mut worker = scene.run_scripted("third");
    scene.up_to_date("x").await;
    worker.stop().await;
    assert!(!worker.log().contains("may have died"), "{}", worker.log());
    assert!(scene.dead_letters("x").await.is_empty());
    assert_eq!(in_file(&scene.path("x.ndjson")).len(), 1);
}

#[tokio::test]
async fn an_event_that_is_refused_or_cut_off_while_the_worker_stops_is_not_blamed_for_it() {
    stopped_with_a_suspect_in_hand(100).await;
}

#[tokio::test]
async fn nor_is_one_that_has_had_its_attempts() {
    stopped_with_a_suspect_in_hand(3).await;
}

#[tokio::test]
async fn a_stop_in_the_search_for_an_event_that_kills_is_no_death() {
    let scene = Scene::new().await;
    let worker = "lease_ttl = \"1s\"\nshutdown_timeout = \"500ms\"";
    let settings = "poison = { attempts = 1 }";
    scene.configure_worker(worker, &scripted("x", settings, FAULTS));
    publish_one(scene.database(), "poison.pill", "s").await;
    let mut worker = scene.run_scripted("killed");
    in_hand(&scene, &mut worker).await;
    worker.kill().await;

    // From here on deliveries are written down first, and each of these is cut off.
    for name in ["first", "second", "third"] {
        let before = scene.calls("x").len();
        let mut worker = scene.run_scripted(name);
        let begun = async || (scene.calls("x").len() > before).then_some(());
        eventually("the delivery is in hand again", begun).await;
        assert_eq!(
            scene.cursor("x").await["delivering"],
            true,
            "it is written down"
        );
        worker.signal(Signal::TERM);
        assert_eq!(worker.ends().await.code(), Some(0));
        let row = scene.cursor("x").await;
        assert_eq!(row["suspect_attempts"], Value::Null, "{row}");
    }
    scene.mend_it("held");
    let mut worker = scene.run_scripted("last");
    scene.up_to_date("x").await;
    worker.stop().await;
    assert!(scene.dead_letters("x").await.is_empty());
    assert_eq!(in_file(&scene.path("x.ndjson")).len(), 1);
}
