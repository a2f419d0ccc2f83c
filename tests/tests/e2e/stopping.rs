//! A stop: what is in hand is finished, progress saved, the lease given back, and the exit status
//! is 0; as pid 1 of a container too.

use std::path::Path;

use async_nats::jetstream::stream::Config;
use outbox_tests::servers::{Mode, Proxy, shared};
use rustix::process::{Pid, Signal, kill_process};

use super::fixture::{Scene, assert_each_once, eventually, in_file, in_nats, publish};

#[tokio::test]
async fn each_signal_ends_it_with_status_0_its_progress_saved_and_its_lease_released() {
    let scene = Scene::new().await;
    scene.configure("[sinks.x.file]\npath = \"x.ndjson\"\n");
    for signal in [Signal::TERM, Signal::INT] {
        let mut worker = scene.run("worker");
        let published = publish(scene.database(), 30).await;
        scene.up_to_date("x").await;
        worker.signal(signal);
        assert_eq!(worker.ends().await.code(), Some(0), "{signal:?}");
        assert_eq!(scene.holder("x").await, None, "the lease is released");
        let newest = published.last().unwrap().position.to_string();
        assert_eq!(
            scene.status("x").await["position"],
            newest,
            "progress is saved"
        );
        assert_each_once("file", &in_file(&scene.path("x.ndjson")), &published);
    }
}

/// A scene whose sink has delivered one event to a stream through a proxy that holds the answer to
/// the second one back.
async fn in_hand(name: &str) -> (Scene, Proxy) {
    let nats = shared::nats().await;
    let jetstream = nats.jetstream().await;
    let subjects = vec![format!("{name}.>")];
    let stream = Config {
        name: name.to_owned(),
        subjects,
        ..Config::default()
    };
    jetstream.create_stream(stream).await.unwrap();
    let network = Proxy::start(nats.addr()).await;
    let scene = Scene::new().await;
    scene.configure(&format!(
        "[sinks.x.nats]\nservers = [\"nats://{}\"]\nsubject = \"{name}.{{type}}\"\n\
         ack_timeout = \"15s\"\n",
        network.addr()
    ));
    (scene, network)
}

async fn stored(name: &str, count: usize) {
    let jetstream = shared::nats().await.jetstream().await;
    let look = async || (in_nats(&jetstream, name).await.len() == count).then_some(());
    eventually("the stream has the event", look).await;
}

#[tokio::test]
async fn a_stop_finishes_the_delivery_in_hand() {
    // H20: and does not count it as an attempt.
    let (scene, network) = in_hand("INHAND").await;
    let mut worker = scene.run("worker");
    publish(scene.database(), 1).await;
    scene.up_to_date("x").await;
    network.set(Mode::HoldAnswers);
    let published = publish(scene.database(), 1).await;
    stored("INHAND", 2).await;

    worker.signal(Signal::TERM);
    worker.says("finishing what is in hand", 1).await;
    assert!(worker.runs());
    network.set(Mode::Pass);
    assert_eq!(worker.ends().await.code(), Some(0));
    let row = scene.status("x").await;
    assert_eq!(row["position"], published[1].position.to_string(), "{row}");
    assert_eq!(
        (row["attempts"].as_u64(), &row["state"]),
        (Some(0), &"free".into()),
        "{row}"
    );
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_and_the_event_comes_again() {
    let (scene, network) = in_hand("TWICE").await;
    let mut worker = scene.run("worker");
    publish(scene.database(), 1).await;
    scene.up_to_date("x").await;
    network.set(Mode::HoldAnswers);
    publish(scene.database(), 1).await;
    stored("TWICE", 2).await;
    worker.signal(Signal::TERM);
    worker.says("finishing what is in hand", 1).await;
    worker.signal(Signal::TERM);
    assert_eq!(worker.ends().await.code(), Some(143));
    scene.status_when("x", |row| row["lag_events"] == 1).await;

    network.set(Mode::Pass);
    let mut worker = scene.run("worker");
    scene.up_to_date("x").await;
    worker.stop().await;
}

#[tokio::test]
async fn pid_1_of_a_container_obeys_sigterm() {
    // B31: the kernel drops signals that pid 1 has no handler for.
    let scene = Scene::new().await;
    scene.configure("[sinks.x.file]\npath = \"x.ndjson\"\n");
    let sinks = super::fixture::sinks().to_str().unwrap();
    let user: &[&str] = if rustix::process::geteuid().is_root() {
        &[]
    } else {
        &["--user", "--map-root-user"]
    };
    let namespace = [
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        sinks,
        "run",
    ];
    let args = [user, &namespace].concat();
    let mut container = scene.start("container", Path::new("unshare"), &args);
    publish(scene.database(), 30).await;
    scene.up_to_date("x").await;
    let init = only_child_of(container.pid());
    let as_seen_inside = std::fs::read_to_string(format!("/proc/{}/status", init.as_raw_nonzero()));
    let as_seen_inside = as_seen_inside.unwrap();
    let pids = as_seen_inside
        .lines()
        .find(|line| line.starts_with("NSpid:"))
        .unwrap();
    assert_eq!(
        pids.split_whitespace().last(),
        Some("1"),
        "it is pid 1 inside: {pids}"
    );

    kill_process(init, Signal::TERM).unwrap();
    assert_eq!(container.ends().await.code(), Some(0));
    assert_eq!(scene.holder("x").await, None, "the lease is released");
}

fn only_child_of(parent: Pid) -> Pid {
    let parent = parent.as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.expect("the kernel lists a process's children");
    let child = children.trim().parse().ok().and_then(Pid::from_raw);
    child.unwrap_or_else(|| panic!("one child: {children:?}"))
}
