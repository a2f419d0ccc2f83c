//! An event that the destination will never take is found among many and set aside: with few
//! deliveries, and without disturbing the others' order.

use super::fixture::{
    Call, Delivered, Running, Scene, assert_complete_by_key, eventually, in_file, publish_in_one,
    publish_one, scripted,
};

const EVENTS: i32 = 10_000;
const AT: i32 = 6_667;
const ATTEMPTS: usize = 3;

/// All events in one batch, and the trial over soon.
fn settings() -> String {
    format!(
        "batch = {{ max_events = {EVENTS}, max_bytes = \"64MiB\" }}\n\
         retry = {{ initial = \"20ms\", max = \"100ms\" }}\n\
         poison = {{ attempts = {ATTEMPTS} }}"
    )
}

/// A sink that met one event among many with a fault, once that is set aside and the others have
/// arrived. The fault goes on.
struct Found {
    scene: Scene,
    worker: Running,
    poison: Delivered,
}

async fn found(fault: &str) -> Found {
    let scene = Scene::new().await;
    let fault = format!("{{ type = \"poison.pill\", does = \"{fault}\", while = \"broken\" }}");
    scene.configure(&scripted("x", &settings(), &fault));
    scene.break_it("broken");
    let mut published = publish_in_one(scene.database(), EVENTS, "poison.pill", &[AT]).await;
    let worker = scene.run_scripted("worker");
    scene.up_to_date("x").await;
    let poison = published.remove(usize::try_from(AT).unwrap() - 1);
    assert_set_aside(&scene, &poison, &published).await;
    Found {
        scene,
        worker,
        poison,
    }
}

async fn assert_set_aside(scene: &Scene, poison: &Delivered, others: &[Delivered]) {
    let taken = in_file(&scene.path("x.ndjson"));
    assert_complete_by_key("the neighbours", &taken, others);
    // Each arrives once, but for one that may be sent again for comparison.
    assert!(taken.len() <= others.len() + 1, "{} lines", taken.len());
    let dead = scene.dead_letters("x").await;
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["event_id"], poison.id.as_str());
    assert_eq!(dead[0]["state"], "dead");
}

/// The fault is gone, and an operator orders a replay: the event arrives once more.
async fn assert_replayed(found: Found) {
    let Found {
        scene,
        mut worker,
        poison,
    } = found;
    let before = scene.cursor("x").await;
    let taken = in_file(&scene.path("x.ndjson")).len();
    scene.mend_it("broken");
    let said = scene
        .sinks(&["dead-letters", "replay", "--sink", "x"])
        .await;
    let said = said.succeeded();
    assert!(said.contains("1 to be replayed: 1 of x"), "{said}");
    assert!(said.contains("newer events of the same key"), "{said}");
    let look = async || (scene.dead_letters("x").await[0]["state"] == "replayed").then_some(());
    eventually("it is replayed", look).await;
    worker.stop().await;
    assert_eq!(scene.replays("x", &poison.id), [1], "once, and marked");
    assert_eq!(in_file(&scene.path("x.ndjson")).len(), taken + 1);
    assert_eq!(scene.cursor("x").await["position"], before["position"]);
}

/// It was found with so few deliveries: the search, the attempts, and what makes sure, which is a
/// neighbour and a last attempt.
#[track_caller]
fn assert_few_deliveries(found: &Found, search: usize) {
    let calls = found.scene.calls("x");
    let alone = |call: &&Call| call.is_alone(found.poison.position);
    assert_eq!(
        calls.iter().filter(alone).count(),
        ATTEMPTS + 1,
        "{calls:?}"
    );
    assert_eq!(
        calls.iter().filter(|call| call.apart).count(),
        1,
        "{calls:?}"
    );
    assert!(calls.len() <= search + ATTEMPTS + 2, "{calls:?}");
}

#[tokio::test]
async fn one_among_ten_thousand_that_is_refused_is_set_aside_and_can_be_replayed() {
    let found = found("refuse").await;
    // The sink says at once which one it is, and what follows in its key comes after it.
    assert_few_deliveries(&found, 2);
    let dead = &found.scene.dead_letters("x").await[0];
    assert_eq!(dead["code"], "SCRIPTED", "{dead}");
    assert_eq!(dead["error"], "as the script says", "{dead}");
    assert_replayed(found).await;
}

#[tokio::test]
async fn one_among_ten_thousand_that_fails_whole_batches_is_found_and_can_be_replayed() {
    let found = found("fail").await;
    // The batch fails once before it is halved.
    let halves = 1 + 2 * usize::try_from(EVENTS.ilog2() + 1).unwrap();
    assert_few_deliveries(&found, 1 + halves);
    let dead = &found.scene.dead_letters("x").await[0];
    assert_eq!(dead["code"], "FAILED", "{dead}");
    assert_replayed(found).await;
}

#[tokio::test]
async fn several_in_a_row_do_not_wait_for_each_other() {
    // Each comes by itself, and the first other one is published last of all.
    let scene = Scene::new().await;
    let settings = "retry = { initial = \"10ms\", max = \"50ms\" }\npoison = { attempts = 2 }";
    let fault = "{ type = \"poison.pill\", does = \"refuse\" }";
    scene.configure(&scripted("x", settings, fault));
    let mut worker = scene.run_scripted("worker");
    let mut poison = Vec::new();
    for number in 0..4 {
        let subject = format!("pill/{number}");
        poison.push(
            publish_one(scene.database(), "poison.pill", &subject)
                .await
                .id,
        );
        let before = scene.calls("x").len();
        let tried = async || (scene.calls("x").len() > before).then_some(());
        eventually("it is tried", tried).await;
    }
    assert!(
        scene.dead_letters("x").await.is_empty(),
        "nothing else was taken"
    );
    let mut others = Vec::new();
    for number in 0..4 {
        others.push(publish_one(scene.database(), "a.b", &format!("s/{number}")).await);
    }
    scene.up_to_date("x").await;
    worker.stop().await;
    let dead = scene.dead_letters("x").await;
    let ids: Vec<_> = dead
        .iter()
        .map(|letter| letter["event_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, poison);
    assert_complete_by_key("the others", &in_file(&scene.path("x.ndjson")), &others);
}
