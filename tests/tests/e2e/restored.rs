//! A database that was restored from a dump into another cluster: the sinks stop and say why, and
//! after `sinks adopt` nothing is lost and nothing comes twice (A23).

use std::collections::HashSet;
use std::time::Duration;

use outbox_tests::servers::Postgres;
use tokio::time::sleep;

use super::fixture::{Delivered, Scene, assert_each_once, burn, in_file, publish};

const FILE: &str = "[sinks.x.file]\npath = \"x.ndjson\"\n";

/// One sink that has got thirty of fifty events and one that has got ten, in a cluster of their own
/// whose transaction ids begin late or not; then all of it in another cluster, by a dump.
async fn moved(early: &Postgres, late: &Postgres) -> (Scene, Vec<Delivered>) {
    let mut scene = Scene::on(early).await;
    let other = "[sinks.y.file]\npath = \"y.ndjson\"\n";
    scene.configure(&format!("{FILE}{other}"));
    let mut worker = scene.run("before");
    publish(scene.database(), 10).await;
    scene.up_to_date("x").await;
    scene.up_to_date("y").await;
    worker.stop().await;
    scene.configure(FILE);
    let mut worker = scene.run("before");
    publish(scene.database(), 20).await;
    scene.up_to_date("x").await;
    worker.stop().await;
    let before = publish(scene.database(), 20).await;
    let dump = early.dump(scene.database()).await;
    scene.move_to(late.restore(&dump).await);
    scene.configure(&format!(
        "[retention]\nmin_age = \"0s\"\ninterval = \"1s\"\n{FILE}{other}"
    ));
    (scene, before)
}

async fn a_dump_stops_the_sinks_until_it_is_adopted(from: &Postgres, to: &Postgres) {
    let (scene, before) = moved(from, to).await;
    // The application does not wait for the operator.
    let old: HashSet<_> = before.iter().map(|event| event.id.clone()).collect();
    let both = publish(scene.database(), 15).await;
    let new: Vec<_> = both
        .into_iter()
        .filter(|event| !old.contains(&event.id))
        .collect();
    let mut worker = scene.run("after");
    worker.says("not delivering: a person must decide", 2).await;
    for sink in ["x", "y"] {
        let row = scene
            .status_when(sink, |row| row["last_error"].is_string())
            .await;
        assert_eq!(row["state"], "backing-off", "{row}");
        assert_eq!(row["last_error_kind"], "misconfigured", "{row}");
        let told = row["last_error"].as_str().unwrap();
        assert!(told.contains("`sinks adopt`"), "{told}");
    }
    assert!(
        worker.log().contains("`sinks adopt`"),
        "the log says so too"
    );
    // Retention has passed by as well, and nothing was sent.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.outbox_rows().await, 65);
    assert_each_once("x", &in_file(&scene.path("x.ndjson")), &before[..30]);
    assert_each_once("y", &in_file(&scene.path("y.ndjson")), &before[..10]);

    let adopted = scene.sinks(&["adopt"]).await.succeeded();
    assert!(adopted.contains("65"), "{adopted}");
    scene.up_to_date("x").await;
    scene.up_to_date("y").await;
    worker.stop().await;
    let ids =
        |events: &[Delivered]| -> Vec<_> { events.iter().map(|event| event.id.clone()).collect() };
    let expected = ids(&[before, new].concat());
    for sink in ["x", "y"] {
        let taken = in_file(&scene.path(&format!("{sink}.ndjson")));
        assert_eq!(
            ids(&taken),
            expected,
            "{sink} has all, each once and in order"
        );
    }
}

#[tokio::test]
async fn a_dump_in_a_cluster_with_lower_transaction_ids_is_adopted() {
    let (from, to) = tokio::join!(Postgres::oldest(), Postgres::newest());
    burn(&from.database().await, 3_000).await;
    a_dump_stops_the_sinks_until_it_is_adopted(&from, &to).await;
}

#[tokio::test]
async fn a_dump_in_a_cluster_with_higher_transaction_ids_is_adopted() {
    let (from, to) = tokio::join!(Postgres::newest(), Postgres::newest());
    burn(&to.database().await, 3_000).await;
    a_dump_stops_the_sinks_until_it_is_adopted(&from, &to).await;
}
