//! Replays run beside the live flow and never move its cursor (H1).

use std::time::Duration;

use outbox::Position;
use sqlx::Executor;
use tokio::time::sleep;

use super::fixture::{
    Delivered, Scene, assert_complete_by_key, eventually, in_file, publish, publish_in_one,
    published, scripted,
};

/// Keeps every position that a cursor was ever written with.
async fn record_cursors(scene: &Scene) {
    let mut connection = scene.connect().await;
    let sql = "create table cursor_log (n bigserial, txid xid8, seq bigint);
        create function log_cursor() returns trigger language plpgsql as $$
            begin insert into cursor_log (txid, seq) values (new.txid, new.seq); return null; end $$;
        create trigger log_cursor after insert or update on outbox_cursors
            for each row execute function log_cursor()";
    connection.execute(sql).await.unwrap();
}

async fn recorded(scene: &Scene) -> Vec<Position> {
    let mut connection = scene.connect().await;
    let sql = "select txid::text || '.' || seq from cursor_log order by n";
    let rows: Vec<String> = sqlx::query_scalar(sql)
        .fetch_all(&mut connection)
        .await
        .unwrap();
    rows.iter().map(|text| text.parse().unwrap()).collect()
}

async fn in_state(scene: &Scene, state: &str, count: usize) {
    let look = async || {
        let dead = scene.dead_letters("x").await;
        let there = dead.iter().filter(|letter| letter["state"] == state);
        (there.count() == count).then_some(())
    };
    eventually(&format!("{count} dead letters are {state}"), look).await;
}

#[tokio::test]
async fn replays_during_live_flow_never_move_the_cursor() {
    let scene = Scene::new().await;
    record_cursors(&scene).await;
    let fault = "{ type = \"poison.pill\", does = \"undeliverable\", while = \"broken\" }";
    let settings = "batch = { max_events = 20 }";
    scene.configure(&scripted("x", settings, fault));
    scene.break_it("broken");
    let mut worker = scene.run_scripted("worker");
    let pills = [3, 44, 60, 61, 99];
    publish_in_one(scene.database(), 100, "poison.pill", &pills).await;
    in_state(&scene, "dead", pills.len()).await;
    let replay = ["dead-letters", "replay", "--sink", "x"];

    // First while they are still refused, then after the fault is gone.
    let flow = async {
        for _ in 0..40 {
            publish(scene.database(), 25).await;
            sleep(Duration::from_millis(20)).await;
        }
    };
    let operator = async {
        scene.sinks(&replay).await.succeeded();
        let look = async || {
            let dead = scene.dead_letters("x").await;
            let again =
                |letter: &serde_json::Value| letter["replays"] == 1 && letter["state"] == "dead";
            dead.iter().all(again).then_some(())
        };
        eventually("all were refused again", look).await;
        scene.mend_it("broken");
        scene.sinks(&replay).await.succeeded();
        in_state(&scene, "replayed", pills.len()).await;
    };
    tokio::join!(flow, operator);
    scene.up_to_date("x").await;
    worker.stop().await;

    let published = published(scene.database()).await;
    let is_pill = |event: &Delivered| {
        let place = published.iter().position(|one| one.id == event.id).unwrap();
        pills.contains(&i32::try_from(place + 1).unwrap())
    };
    let taken = in_file(&scene.path("x.ndjson"));
    let (replayed, live): (Vec<_>, Vec<_>) = taken.into_iter().partition(is_pill);
    let mut ids: Vec<_> = replayed.iter().map(|event| &event.id).collect();
    ids.sort();
    assert_eq!(ids.len(), pills.len(), "each arrives once: {ids:?}");
    for id in ids {
        assert_eq!(scene.replays("x", id), [2], "its second replay");
    }
    let others: Vec<_> = published
        .iter()
        .filter(|event| !is_pill(event))
        .cloned()
        .collect();
    assert_complete_by_key("live", &live, &others);
    assert_eq!(live.len(), others.len(), "each arrives once");
    let positions = recorded(&scene).await;
    assert!(positions.is_sorted(), "{positions:?}");
    assert_eq!(
        positions.last(),
        published.last().map(|event| &event.position)
    );
}

#[tokio::test]
async fn a_replay_ahead_of_the_cursor_does_not_take_it_along() {
    // A seek has brought the cursor back before a dead letter, and the destination is out for all
    // live events.
    let scene = Scene::new().await;
    let faults = "{ type = \"poison.pill\", does = \"undeliverable\", while = \"broken\" }, \
                  { type = \"order.paid\", does = \"unavailable\", while = \"out\" }";
    let settings = "retry = { initial = \"20ms\", max = \"50ms\" }";
    scene.configure(&scripted("x", settings, faults));
    scene.break_it("broken");
    let mut worker = scene.run_scripted("worker");
    let published = publish_in_one(scene.database(), 30, "poison.pill", &[20]).await;
    in_state(&scene, "dead", 1).await;
    scene.up_to_date("x").await;

    scene.mend_it("broken");
    scene.break_it("out");
    let sought = scene
        .sinks(&["seek", "x", "--to", "beginning"])
        .await
        .succeeded();
    assert!(sought.contains("has obeyed"), "{sought}");
    let id = scene.dead_letters("x").await[0]["id"].to_string();
    scene
        .sinks(&["dead-letters", "replay", "--id", &id])
        .await
        .succeeded();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.cursor("x").await["position"], "0.0");
    scene.mend_it("out");
    scene.up_to_date("x").await;
    in_state(&scene, "replayed", 1).await;
    worker.stop().await;
    let taken = in_file(&scene.path("x.ndjson"));
    // All but the poison at first, then all of them, and the replay.
    assert_eq!(taken.len(), 29 + 30 + 1);
    let second: Vec<_> = taken[29..].to_vec();
    assert_complete_by_key("after the seek", &second, &published);
}
