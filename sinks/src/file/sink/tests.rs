//! The sink on real files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::{Encoder, ErrorKind, Event, Position};

fn connector(path: &Path) -> FileConnector {
    FileConnector::new(path.to_owned(), true, Encoder::default())
}

async fn open(path: &Path) -> Result<Box<dyn Sink>, SinkError> {
    let session = Session::new("x", 1, Duration::from_secs(30));
    connector(path).open(&session).await
}

fn batch(seqs: std::ops::Range<i64>) -> Batch {
    let event = |seq| {
        let payload = format!(r#"{{"id":"evt_{seq}","type":"a.b"}}"#);
        Event::new(Position::new(1, seq), "a.b", payload)
    };
    Batch::new(seqs.map(event).collect::<Vec<_>>()).unwrap()
}

fn ids(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    let id = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["id"].as_str().unwrap().to_owned()
    };
    text.lines().map(id).collect()
}

#[tokio::test]
async fn batches_are_appended_in_order_also_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.ndjson");
    for range in [1..4, 4..6] {
        let mut sink = open(&path).await.unwrap();
        assert_eq!(sink.deliver(&batch(range)).await.unwrap(), Delivery::All);
    }
    assert_eq!(ids(&path), ["evt_1", "evt_2", "evt_3", "evt_4", "evt_5"]);
}

#[tokio::test]
async fn a_torn_last_line_is_removed_and_a_whole_one_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.ndjson");
    for (before, expected) in [
        ("{\"id\":\"a\"}\n{\"id\":\"b", vec!["a", "evt_1"]),
        ("{\"id\":\"a\"}\n{\"id\":\"b\"}", vec!["a", "b", "evt_1"]),
        ("{\"id", vec!["evt_1"]),
    ] {
        fs::write(&path, before).unwrap();
        let mut sink = open(&path).await.unwrap();
        sink.deliver(&batch(1..2)).await.unwrap();
        assert_eq!(ids(&path), expected);
    }
}

#[tokio::test]
async fn a_file_of_somebody_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("passwd");
    fs::write(&path, "root:x:0:0").unwrap();
    let error = open(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "root:x:0:0");
}

#[tokio::test]
async fn a_second_writer_is_kept_away_until_the_first_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.ndjson");
    let first = open(&path).await.unwrap();
    let error = open(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    drop(first);
    open(&path).await.unwrap();
}

#[tokio::test]
async fn a_file_that_was_moved_or_deleted_is_opened_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.ndjson");
    let rotated = folder.path().join("events.ndjson.1");
    let mut sink = open(&path).await.unwrap();
    sink.deliver(&batch(1..2)).await.unwrap();
    fs::rename(&path, &rotated).unwrap();
    fs::write(&path, "").unwrap();
    sink.deliver(&batch(2..3)).await.unwrap();
    assert_eq!(
        (ids(&rotated), ids(&path)),
        (vec!["evt_1".to_owned()], vec!["evt_2".to_owned()])
    );
    fs::remove_file(&path).unwrap();
    sink.deliver(&batch(3..4)).await.unwrap();
    assert_eq!(ids(&path), ["evt_3"]);
}

#[tokio::test]
async fn what_needs_a_person_is_misconfigured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [
        folder.path().join("missing/events.ndjson"),
        folder.path().to_owned(),
        file.join("below"),
        Path::new("/dev/null").to_owned(),
    ] {
        let opened = open(&path).await.unwrap_err();
        let probed = connector(&path).probe().await.unwrap_err();
        assert_eq!(opened.kind(), ErrorKind::Misconfigured, "{opened:?}");
        assert_eq!(probed.kind(), ErrorKind::Misconfigured, "{probed:?}");
        assert!(opened.advice().is_some());
    }
}

#[tokio::test]
async fn a_probe_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.ndjson");
    connector(&path).probe().await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn while_an_earlier_call_hangs_no_other_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.ndjson");
    let connector = connector(&path);
    let session = Session::new("x", 1, Duration::from_secs(30));
    let mut sink = connector.open(&session).await.unwrap();
    fs::remove_file(&path).unwrap();
    // What a thread holds that has not come back.
    let hangs = connector.settings.turn().await.unwrap();

    let opened = connector.open(&session).await.unwrap_err();
    let delivered = sink.deliver(&batch(1..2)).await.unwrap_err();
    for error in [opened, delivered] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains("has not come back"), "{error:?}");
    }
    assert!(!path.exists());

    drop(hangs);
    sink.deliver(&batch(1..2)).await.unwrap();
    assert_eq!(ids(&path), ["evt_1"]);
}
