//! The sinks spread over the workers, and follow when one of them stops.

use std::fmt::Write;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::fixture::{
    Scene, assert_each_once, configure, eventually, in_file, is_held_by, publish, start,
};

const SINKS: [&str; 5] = ["s1", "s2", "s3", "s4", "s5"];
const TTL: Duration = Duration::from_secs(9);

async fn held(scene: &Scene, worker: &str) -> usize {
    let mut held = 0;
    for sink in SINKS {
        held += usize::from(is_held_by(scene, sink, worker).await);
    }
    held
}

async fn spread(scene: &Scene, first: &str, second: &str) {
    let look = async || {
        let shares = (held(scene, first).await, held(scene, second).await);
        matches!(shares, (2, 3) | (3, 2)).then_some(())
    };
    eventually("the sinks are spread", look).await;
}

#[tokio::test]
async fn sinks_spread_to_a_second_worker_and_come_back_at_once_when_it_stops() {
    let scene = Scene::new().await;
    let mut sinks = String::new();
    for sink in SINKS {
        write!(sinks, "[sinks.{sink}.file]\npath = \"{sink}.ndjson\"\n").unwrap();
    }
    scene.configure(&sinks);
    for worker in ["a", "b"] {
        configure(&scene, worker, "9s", &sinks);
    }
    let mut a = start(&scene, "a");
    let all = async |worker: &str| {
        let look = async || (held(&scene, worker).await == SINKS.len()).then_some(());
        eventually(&format!("{worker} holds all"), look).await;
    };
    all("a").await;
    let mut b = start(&scene, "b");
    let mut published = publish(scene.database(), 40).await;
    spread(&scene, "a", "b").await;
    // No sink goes to and fro.
    let given = a.count("giving a sink back") + b.count("giving a sink back");
    assert_eq!(given, 2);
    // Who gave a sink back leaves it alone for a while, so that the other one can take it.
    sleep(Duration::from_secs(4)).await;

    let asked_at = Instant::now();
    b.stop().await;
    all("a").await;
    let took = asked_at.elapsed();
    assert!(
        took < TTL / 2,
        "{took:?} is no better than waiting for the leases"
    );
    published.extend(publish(scene.database(), 40).await.split_off(40));
    for sink in SINKS {
        scene.up_to_date(sink).await;
    }
    a.stop().await;
    for sink in SINKS {
        let path = scene.path(&format!("{sink}.ndjson"));
        assert_each_once(sink, &in_file(&path), &published);
    }
}
