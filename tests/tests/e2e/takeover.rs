//! Several workers: one delivers a sink at a time, and another takes over when it stops, vanishes
//! or freezes.

use std::time::Duration;

use async_nats::jetstream::stream::Config;
use outbox_tests::servers::{Mode, Proxy, shared};
use rustix::process::Signal;
use sqlx::AssertSqlSafe;
use tokio::time::Instant;

use super::fixture::{
    Scene, assert_complete_by_key, assert_complete_in_order, assert_each_once, configure,
    cursor_version, distinct, eventually, held_by, in_file, in_nats, is_held_by, publish, start,
};

/// A moment of the lease of sink x, in seconds.
async fn lease_time(scene: &Scene, column: &str) -> f64 {
    let mut connection = scene.connect().await;
    let sql = format!(
        "select extract(epoch from {column})::float8 from leases
         where name = 'singleton:outbox-dispatch:x'"
    );
    sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_worker_that_stops_is_followed_at_once_and_one_that_is_killed_after_the_lease_ran_out() {
    let scene = Scene::new().await;
    for worker in ["a", "b", "c"] {
        configure(
            &scene,
            worker,
            "8s",
            "[sinks.x.file]\npath = \"x.ndjson\"\n",
        );
    }
    let file = scene.path("x.ndjson");
    let all = async |count: usize| {
        eventually("all is delivered", async || {
            (distinct(&in_file(&file)) >= count).then_some(())
        })
        .await;
    };
    let mut a = start(&scene, "a");
    held_by(&scene, "x", "a").await;
    let mut b = start(&scene, "b");
    b.says("started", 1).await;
    publish(scene.database(), 50).await;
    all(50).await;
    assert!(is_held_by(&scene, "x", "a").await, "who holds it keeps it");

    let asked_at = Instant::now();
    a.stop().await;
    held_by(&scene, "x", "b").await;
    let took = asked_at.elapsed();
    assert!(
        took < Duration::from_secs(5),
        "{took:?} is no better than waiting for the lease"
    );
    let published = publish(scene.database(), 50).await;
    all(100).await;
    assert_each_once("after a graceful takeover", &in_file(&file), &published);

    let mut c = start(&scene, "c");
    c.says("started", 1).await;
    b.kill().await;
    let expires_at = lease_time(&scene, "expires_at").await;
    held_by(&scene, "x", "c").await;
    let acquired_at = lease_time(&scene, "acquired_at").await;
    assert!(
        acquired_at >= expires_at,
        "taken {acquired_at}, ran out {expires_at}"
    );
    let published = publish(scene.database(), 50).await;
    all(150).await;
    assert_complete_in_order("after a kill", &in_file(&file), &published);
    c.stop().await;
}

#[tokio::test]
async fn a_worker_that_was_frozen_past_its_lease_writes_nothing_when_it_wakes_up() {
    // B34. The frozen one has a delivery in hand whose acknowledgement comes when it wakes up.
    let scene = Scene::new().await;
    let nats = shared::nats().await;
    let jetstream = nats.jetstream().await;
    let stream = Config {
        name: "FROZEN".into(),
        subjects: vec!["frozen.>".into()],
        ..Config::default()
    };
    jetstream.create_stream(stream).await.unwrap();
    let network = Proxy::start(nats.addr()).await;
    for (worker, server) in [("a", network.addr()), ("b", nats.addr())] {
        let sinks = format!(
            "[sinks.x.nats]\nservers = [\"nats://{server}\"]\nsubject = \"frozen.{{type}}\"\n"
        );
        configure(&scene, worker, "3s", &sinks);
        scene.configure(&sinks);
    }
    let stored = async |count: usize| {
        let look = async || (in_nats(&jetstream, "FROZEN").await.len() >= count).then_some(());
        eventually("all is stored", look).await;
    };
    let mut a = start(&scene, "a");
    publish(scene.database(), 10).await;
    scene.up_to_date("x").await;
    let mut b = start(&scene, "b");
    b.says("started", 1).await;

    network.set(Mode::HoldAnswers);
    publish(scene.database(), 1).await;
    stored(11).await;
    a.signal(Signal::STOP);
    held_by(&scene, "x", "b").await;
    publish(scene.database(), 50).await;
    stored(61).await;
    scene.up_to_date("x").await;
    let cursor = cursor_version(&scene).await;

    network.set(Mode::Pass);
    a.signal(Signal::CONT);
    a.says("another worker may go on", 1).await;
    assert_eq!(
        cursor_version(&scene).await,
        cursor,
        "the cursor was written"
    );
    assert!(is_held_by(&scene, "x", "b").await);

    // It waits, and is of use again.
    b.stop().await;
    held_by(&scene, "x", "a").await;
    let published = publish(scene.database(), 10).await;
    scene.up_to_date("x").await;
    assert_complete_by_key("nats", &in_nats(&jetstream, "FROZEN").await, &published);
    a.stop().await;
}
