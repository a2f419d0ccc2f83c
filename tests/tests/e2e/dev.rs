//! `sinks dev` end to end: its counts, its file, its manners in a folder, and its ends.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, test_kill_process};

use super::fixture::{Delivered, Running, Scene, eventually, in_file};

/// What it ends with, as `(published, delivered)`.
fn summary(text: &str) -> (usize, usize) {
    let line = text.lines().last().unwrap_or_default();
    let numbers: Vec<usize> = line
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect();
    assert!(
        line.starts_with("published ") && line.ends_with(", dead letters 0"),
        "{text}"
    );
    (numbers[0], numbers[1])
}

/// Each event once, in rising sequence, and as many as it says.
fn assert_told_truly(said: &str, file: &Path) {
    let (published, delivered) = summary(said);
    assert_eq!(published, delivered, "{said}");
    let events = in_file(file);
    assert_eq!(events.len(), delivered);
    let rising = |pair: &[Delivered]| pair[0].position < pair[1].position;
    assert!(events.windows(2).all(rising), "the sequence rises");
    let mut ids: Vec<_> = events.iter().map(|event| &event.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), delivered, "the ids are distinct");
}

/// The process id of the server in a folder of `sinks dev`.
async fn server_in(folder: &Path) -> Pid {
    let file: PathBuf = folder.join("server/data/postmaster.pid");
    let look = async || {
        let text = std::fs::read_to_string(&file).ok()?;
        text.lines().next()?.parse().ok().and_then(Pid::from_raw)
    };
    eventually("the server has a pid", look).await
}

async fn is_gone(server: Pid) {
    let look = async || test_kill_process(server).is_err().then_some(());
    eventually("the server is gone", look).await;
}

fn start(scene: &Scene, name: &str) -> Running {
    scene.start(
        name,
        super::fixture::sinks(),
        &["dev", "--dir", "dev", "--rate", "300"],
    )
}

async fn delivers(scene: &Scene) {
    let file = scene.path("dev/events.ndjson");
    eventually("events are delivered", async || {
        (in_file(&file).len() > 50).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_run_for_five_seconds_ends_with_equal_counts_and_the_file_bears_it_out() {
    let scene = Scene::empty().await;
    let args = [
        "dev",
        "--for",
        "5s",
        "--rate",
        "200",
        "--output",
        "out/events.ndjson",
    ];
    let said = scene.sinks(&args).await.succeeded();
    let file = scene.path("out/events.ndjson");
    assert_told_truly(&said, &file);
    assert!(summary(&said).0 > 500, "{said}");
}

#[tokio::test]
async fn a_folder_is_for_one_run_at_a_time_and_survives_every_end_of_it() {
    let scene = Scene::empty().await;
    let file = scene.path("dev/events.ndjson");
    let mut first = start(&scene, "first");
    delivers(&scene).await;
    let server = server_in(&scene.path("dev")).await;
    let second = scene.sinks(&["dev", "--dir", "dev", "--for", "1s"]).await;
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(
        second.stderr.contains("dev") && second.stderr.contains("--dir"),
        "{second:?}"
    );
    assert!(first.runs());

    // 1. Ctrl-C: a summary, and nothing is left.
    first.signal(Signal::INT);
    assert_eq!(first.ends().await.code(), Some(0));
    assert_told_truly(&first.log(), &file);
    is_gone(server).await;

    // 2. kill -9: the server goes as well, by itself.
    let mut killed = start(&scene, "killed");
    delivers(&scene).await;
    let server = server_in(&scene.path("dev")).await;
    killed.kill().await;
    is_gone(server).await;

    // 3. And the folder is of use again.
    let args = ["dev", "--dir", "dev", "--for", "2s", "--rate", "200"];
    let said = scene.sinks(&args).await.succeeded();
    assert_told_truly(&said, &file);
}
