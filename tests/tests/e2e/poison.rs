//! An event that the destination will never take is found among many and set aside: with few
//! deliveries, and without disturbing the others' order.

use super::fixture::{Delivered, Scene, assert_complete_by_key, in_file, publish_in_one, scripted};

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

/// A scene whose sink meets one event among many with this fault. Returns it with the poisonous
/// event and the others, once that is set aside and they have arrived.
async fn found(fault: &str) -> (Scene, Delivered, Vec<Delivered>) {
    let scene = Scene::new().await;
    let fault = format!("{{ type = \"poison.pill\", does = \"{fault}\", while = \"broken\" }}");
    scene.configure(&scripted("x", &settings(), &fault));
    scene.break_it("broken");
    let mut published = publish_in_one(scene.database(), EVENTS, "poison.pill", &[AT]).await;
    let mut worker = scene.run_scripted("worker");
    scene.up_to_date("x").await;
    worker.stop().await;
    let poison = published.remove(usize::try_from(AT).unwrap() - 1);
    assert_set_aside(&scene, &poison, &published).await;
    (scene, poison, published)
}

async fn assert_set_aside(scene: &Scene, poison: &Delivered, others: &[Delivered]) {
    let taken = in_file(&scene.path("x.ndjson"));
    assert_complete_by_key("the neighbours", &taken, others);
    assert_eq!(taken.len(), others.len(), "each arrives once");
    let dead = scene.dead_letters("x").await;
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["event_id"], poison.id.as_str());
    assert_eq!(dead[0]["state"], "dead");
}

/// 1 + 2⌈log2 n⌉ to find one event among so many.
fn bisection() -> usize {
    1 + 2 * usize::try_from(EVENTS.ilog2() + 1).unwrap()
}

#[tokio::test]
async fn one_among_ten_thousand_that_is_refused_is_set_aside() {
    let (scene, poison, _) = found("refuse").await;
    let calls = scene.calls("x");
    let alone = calls.iter().filter(|call| call.is_alone(poison.position));
    assert_eq!(alone.count(), ATTEMPTS, "{calls:?}");
    assert!(calls.len() <= bisection() + ATTEMPTS, "{calls:?}");
    let dead = &scene.dead_letters("x").await[0];
    assert_eq!(dead["code"], "SCRIPTED", "{dead}");
    assert_eq!(dead["error"], "as the script says", "{dead}");
}

#[tokio::test]
async fn one_among_ten_thousand_that_fails_whole_batches_is_found_and_set_aside() {
    let (scene, poison, _) = found("fail").await;
    let calls = scene.calls("x");
    // Once whole before bisection, then alone, then a neighbour and a last attempt.
    let alone = calls.iter().filter(|call| call.is_alone(poison.position));
    assert_eq!(alone.count(), ATTEMPTS + 1, "{calls:?}");
    assert_eq!(
        calls.iter().filter(|call| call.apart).count(),
        1,
        "{calls:?}"
    );
    assert!(calls.len() <= 1 + bisection() + ATTEMPTS + 2, "{calls:?}");
    let dead = &scene.dead_letters("x").await[0];
    assert_eq!(dead["code"], "FAILED", "{dead}");
}
