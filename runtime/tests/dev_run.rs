//! `sinks dev` as a library call: the real worker, the real Postgres, the real file sink.
#![cfg(test)]

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outbox::Position;
use outbox_runtime::dev::{DevError, DevOptions, Lookup, Summary, run};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

fn open_folder() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn options(dir: &Path, duration: Option<Duration>) -> DevOptions {
    DevOptions {
        dir: dir.to_owned(),
        output: None,
        duration,
        rate: DevOptions::DEFAULT_RATE,
        lookup: Lookup {
            named: std::env::var_os("SINKS_PG_BIN").map(PathBuf::from),
            path: std::env::var_os("PATH"),
        },
    }
}

/// Waits until the file has this many bytes.
async fn grown(path: &Path, bytes: u64) {
    while fs::metadata(path).map_or(0, |file| file.len()) < bytes {
        sleep(Duration::from_millis(50)).await;
    }
}

/// Checks the output without the code that is under test.
fn assert_is_complete(output: &Path, summary: &Summary) {
    assert_eq!(summary.problems, Vec::<String>::new());
    let text = fs::read_to_string(output).unwrap();
    let events: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ids: HashSet<&str> = events
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect();
    let sequence: Vec<Position> = events
        .iter()
        .map(|event| event["sequence"].as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(ids.len(), events.len());
    assert!(sequence.is_sorted_by(|a, b| a < b));
    assert_eq!(
        (summary.published, summary.delivered),
        (ids.len() as u64, ids.len() as u64)
    );
    let gaps = sequence
        .windows(2)
        .filter(|pair| pair[1].seq != pair[0].seq + 1)
        .count();
    assert!(
        gaps > 0,
        "neither a rollback nor an overlap in the whole run"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_was_committed_is_delivered_once_and_in_order() {
    let dir = open_folder();
    let stop = CancellationToken::new();
    let summary = run(&options(dir.path(), Some(Duration::from_secs(4))), &stop)
        .await
        .unwrap();
    assert!(summary.published > 500, "{summary}");
    assert_is_complete(&dir.path().join("events.ndjson"), &summary);

    // The second run in the folder is on its own, and writes where it is told.
    let mut options = options(dir.path(), Some(Duration::from_secs(2)));
    let output = dir.path().join("elsewhere/events.ndjson");
    options.output = Some(output.clone());
    let summary = run(&options, &stop).await.unwrap();
    assert_is_complete(&output, &summary);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_load_and_the_rest_is_still_delivered_and_compared() {
    let dir = open_folder();
    let stop = CancellationToken::new();
    let options = options(dir.path(), None);
    let output = dir.path().join("events.ndjson");
    let running = run(&options, &stop);
    tokio::pin!(running);
    tokio::select! {
        early = &mut running => panic!("ended before it was told to: {early:?}"),
        () = grown(&output, 20_000) => stop.cancel(),
    }
    let stopped = Instant::now();
    assert_is_complete(&output, &running.await.unwrap());
    assert!(stopped.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_before_anything_was_published_gives_an_empty_summary() {
    let dir = open_folder();
    let stop = CancellationToken::new();
    stop.cancel();
    let summary = run(&options(dir.path(), None), &stop).await.unwrap();
    assert_eq!(
        summary.to_string(),
        "published 0, delivered 0, dead letters 0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_ends_the_run_with_the_reason() {
    let dir = open_folder();
    let stop = CancellationToken::new();
    let options = options(dir.path(), None);
    let output = dir.path().join("events.ndjson");
    let running = run(&options, &stop);
    tokio::pin!(running);
    tokio::select! {
        early = &mut running => panic!("ended before the server did: {early:?}"),
        () = grown(&output, 1) => {}
    }
    let file = fs::read_to_string(dir.path().join("server/data/postmaster.pid")).unwrap();
    let pid = file.lines().next().unwrap();
    Command::new("kill").args(["-KILL", pid]).status().unwrap();
    let result = running.await;
    let error = result.unwrap_err();
    assert!(matches!(error, DevError::Server(_)), "{error:?}");
    assert!(error.to_string().contains("ended by itself"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_somebodys_file_is_refused_and_left_as_it_was() {
    let dir = open_folder();
    let notes = dir.path().join("notes.txt");
    fs::write(&notes, "buy milk\n").unwrap();
    let mut options = options(&dir.path().join("dev"), Some(Duration::from_secs(1)));
    options.output = Some(notes.clone());
    let error = run(&options, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, DevError::Output(_)), "{error:?}");
    assert_eq!(fs::read_to_string(&notes).unwrap(), "buy milk\n");
}
