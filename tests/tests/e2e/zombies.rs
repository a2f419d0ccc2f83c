//! A worker that was taken for dead, and then goes on where it was: it writes nothing any more
//! (B34).

use std::time::Duration;

use outbox_tests::servers::{Mode, PostgresVersion, Proxy, shared};
use rustix::process::Signal;
use sqlx::Executor;
use tokio::time::sleep;

use super::fixture::{
    Running, Scene, assert_complete_by_key, configure, configure_via, cursor_version, eventually,
    in_file, is_held_by, publish, publish_one, scripted, start_scripted,
};

const TTL: &str = "3s";

/// A sink of the worker `who`, which holds deliveries as long as there is a file `held-<who>`.
fn sink(who: &str, more: &str) -> String {
    let hold = format!("{{ does = \"hold\", while = \"held-{who}\" }}");
    scripted("x", "", &[hold.as_str(), more].join(", "))
}

/// Waits until one event is in hand that was not before there were so many deliveries.
async fn one_in_hand(scene: &Scene, before: usize) {
    let look = async || {
        let calls = scene.calls("x");
        (calls.len() > before && calls.last()?.events == 1).then_some(())
    };
    eventually("one event is in hand", look).await;
}

/// The second worker takes over, and has the same event in hand: nothing has moved the cursor.
async fn taken_over(scene: &Scene) -> Running {
    scene.break_it("held-b");
    let before = scene.calls("x").len();
    let b = start_scripted(scene, "b");
    b.says("cursor claimed", 1).await;
    one_in_hand(scene, before).await;
    b
}

#[tokio::test]
async fn a_worker_that_was_frozen_past_its_lease_sets_nothing_aside_when_it_wakes_up() {
    let scene = Scene::new().await;
    let never = "{ type = \"poison.pill\", does = \"undeliverable\" }";
    configure(&scene, "a", TTL, &sink("a", never));
    configure(&scene, "b", TTL, &sink("b", ""));
    scene.configure(&sink("b", ""));
    let mut a = start_scripted(&scene, "a");
    publish(scene.database(), 10).await;
    scene.up_to_date("x").await;
    scene.break_it("held-a");
    let before = scene.calls("x").len();
    publish_one(scene.database(), "poison.pill", "s").await;
    one_in_hand(&scene, before).await;
    a.signal(Signal::STOP);
    let mut b = taken_over(&scene).await;
    let cursor = cursor_version(&scene).await;

    // Its sink answers at once that the event can never be sent.
    scene.mend_it("held-a");
    a.signal(Signal::CONT);
    a.says("another worker may go on", 1).await;
    assert_eq!(
        cursor_version(&scene).await,
        cursor,
        "the cursor was written"
    );
    assert!(scene.dead_letters("x").await.is_empty());
    assert!(is_held_by(&scene, "x", "b").await);
    scene.mend_it("held-b");
    let published = publish(scene.database(), 20).await;
    scene.up_to_date("x").await;
    assert!(scene.dead_letters("x").await.is_empty());
    assert_complete_by_key("b", &in_file(&scene.path("x.ndjson")), &published);
    a.stop().await;
    b.stop().await;
}

/// Counts statements that would write cursors, also those that find nothing to write.
async fn count_updates(scene: &Scene) {
    let mut connection = scene.connect().await;
    let sql = "create sequence cursor_updates;
        create function count_update() returns trigger language plpgsql as $$
            begin perform nextval('cursor_updates'); return null; end $$;
        create trigger count_update before update on outbox_cursors
            for each statement execute function count_update()";
    connection.execute(sql).await.unwrap();
}

async fn updates(scene: &Scene) -> i64 {
    let mut connection = scene.connect().await;
    let sql = "select last_value from cursor_updates";
    sqlx::query_scalar(sql)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_write_that_was_on_its_way_past_the_lease_changes_nothing_when_it_arrives() {
    let scene = Scene::new().await;
    count_updates(&scene).await;
    let postgres = shared::postgres(PostgresVersion::Oldest).await.addr();
    let network = Proxy::start(postgres).await;
    let url = scene.database().url_via(network.addr());
    // Each batch is written, so that its connections soon know the statement: what is on its way
    // must be all that it takes.
    let at_once = format!("[cursor]\nsave_interval = \"0s\"\n{}", sink("a", ""));
    configure_via(&scene, "a", &url, TTL, &at_once);
    configure(&scene, "b", TTL, &sink("b", ""));
    scene.configure(&sink("b", ""));
    let mut a = start_scripted(&scene, "a");
    for _ in 0..60 {
        publish(scene.database(), 5).await;
        sleep(Duration::from_millis(10)).await;
    }
    scene.up_to_date("x").await;
    scene.break_it("held-a");
    let before = scene.calls("x").len();
    publish_one(scene.database(), "a.b", "s").await;
    one_in_hand(&scene, before).await;

    // The destination has the event, and the word of it gets stuck in the network.
    network.set(Mode::Hang);
    scene.mend_it("held-a");
    let mut b = taken_over(&scene).await;
    let (cursor, before) = (cursor_version(&scene).await, updates(&scene).await);
    network.set(Mode::Pass);
    let arrived = async || (updates(&scene).await > before).then_some(());
    eventually("the write arrives", arrived).await;
    assert_eq!(
        cursor_version(&scene).await,
        cursor,
        "the cursor was written"
    );
    assert!(is_held_by(&scene, "x", "b").await);
    scene.mend_it("held-b");
    let published = publish(scene.database(), 20).await;
    scene.up_to_date("x").await;
    assert_complete_by_key("both", &in_file(&scene.path("x.ndjson")), &published);
    a.stop().await;
    b.stop().await;
}
