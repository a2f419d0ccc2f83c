//! The sink on files and on a pipe that nobody reads.

use std::io::{PipeReader, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::{Encoder, ErrorKind, Event, Position};

/// More than a pipe holds.
const LARGE: usize = 200_000;

fn batch(padding: usize) -> Batch {
    let padding = "x".repeat(padding);
    let payload = format!(r#"{{"id":"e","type":"a.b","data":"{padding}"}}"#);
    Batch::new(vec![Event::new(Position::new(1, 1), "a.b", payload)]).unwrap()
}

fn sink<F>(torn: &Turn<bool>, output: F) -> LineSink<F>
where
    F: Fn() -> io::Result<File> + Send + Sync,
{
    LineSink {
        encoder: Encoder::default(),
        torn: torn.clone(),
        output,
    }
}

/// A pipe, its writing end as an output, and how often that was opened.
fn pipe() -> (
    PipeReader,
    impl Fn() -> io::Result<File> + Clone + Send + Sync,
    Arc<AtomicUsize>,
) {
    let (reader, writer) = io::pipe().unwrap();
    let (writer, opened) = (Arc::new(writer), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&opened);
    let output = move || {
        count.fetch_add(1, Ordering::SeqCst);
        writer.try_clone().map(OwnedFd::from).map(File::from)
    };
    (reader, output, opened)
}

fn read(mut reader: PipeReader) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    })
}

fn assert_whole_lines(text: &str, lengths: &[usize]) {
    let length = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event["data"].as_str().unwrap().len()
    };
    assert_eq!(text.lines().map(length).collect::<Vec<_>>(), lengths);
}

#[tokio::test]
async fn while_a_write_is_stuck_no_other_begins_and_the_lines_stay_whole() {
    let (reader, output, opened) = pipe();
    let turn = Turn::default();
    let large = batch(LARGE);
    let mut first = sink(&turn, output.clone());
    let dropped = timeout(Duration::from_millis(100), first.deliver(&large)).await;
    assert!(dropped.is_err(), "the pipe took it all");
    drop(first);

    let mut second = sink(&turn, output);
    for _ in 0..2 {
        let small = batch(1);
        let refused = timeout(Duration::from_secs(10), second.deliver(&small)).await;
        let error = refused.expect("a second write began").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains("stalled"), "{error:?}");
        assert!(error.advice().is_some());
    }
    assert_eq!(opened.load(Ordering::SeqCst), 1);

    let text = read(reader);
    second.deliver(&large).await.unwrap();
    second.deliver(&batch(1)).await.unwrap();
    assert_eq!(opened.load(Ordering::SeqCst), 3);
    drop(second);
    assert_whole_lines(&text.join().unwrap(), &[LARGE, LARGE, 1]);
}

#[tokio::test]
async fn two_sinks_at_once_wait_for_each_other() {
    let (reader, output, _) = pipe();
    let turn = Turn::default();
    let text = read(reader);
    let (mut one, mut other) = (sink(&turn, output.clone()), sink(&turn, output));
    let large = batch(LARGE);
    let (left, right) = tokio::join!(one.deliver(&large), other.deliver(&large));
    left.unwrap();
    right.unwrap();
    drop((one, other));
    assert_whole_lines(&text.join().unwrap(), &[LARGE, LARGE]);
}

#[tokio::test]
async fn a_line_after_a_failed_write_begins_on_its_own() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    let turn = Turn::default();
    let full = || File::options().append(true).open("/dev/full");
    sink(&turn, full).deliver(&batch(1)).await.unwrap_err();
    // Another sink, as after a delivery that failed.
    let mut sink = sink(&turn, move || File::options().append(true).open(&path));
    sink.deliver(&batch(1)).await.unwrap();
    sink.deliver(&batch(1)).await.unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(
        text.lines().map(str::is_empty).collect::<Vec<_>>(),
        [true, false, false]
    );
}

#[tokio::test]
async fn a_full_device_is_an_outage() {
    let turn = Turn::default();
    let mut sink = sink(&turn, || File::options().append(true).open("/dev/full"));
    let error = sink.deliver(&batch(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}
