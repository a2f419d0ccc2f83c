//! Destinations that are not there: `check --online` says so, `run` goes on trying, and `status`
//! tells a person what to do.

use outbox_tests::servers::{free_port, shared};
use serde_json::Value;

use super::fixture::{Scene, eventually, in_file, publish, s3_settings};

#[tokio::test]
async fn a_broker_that_is_not_there_fails_the_check_and_not_the_worker() {
    let scene = Scene::new().await;
    let port = free_port();
    scene.configure(&format!(
        "[sinks.far]\ndelivery_timeout = \"4s\"\nretry = {{ initial = \"100ms\", max = \"500ms\" }}\n\
         [sinks.far.kafka]\nbrokers = [\"127.0.0.1:{port}\"]\n\
         [sinks.near.file]\npath = \"near.ndjson\"\n"
    ));
    let port = port.to_string();
    let checked = scene.sinks(&["check", "--online"]).await;
    checked.failed(
        5,
        &[
            "sink far (kafka)",
            "unavailable",
            &port,
            "1 of 4 checks failed",
        ],
    );

    let mut worker = scene.run("worker");
    publish(scene.database(), 5).await;
    let failing = |row: &Value| row["attempts"].as_u64() >= Some(2);
    let row = scene.status_when("far", failing).await;
    assert_eq!(
        (&row["state"], &row["last_error_kind"]),
        (&"backing-off".into(), &"unavailable".into())
    );
    assert_eq!(row["position"], "0.0", "{row}");
    scene.up_to_date("near").await;
    assert_eq!(in_file(&scene.path("near.ndjson")).len(), 5);
    worker.stop().await;
}

#[tokio::test]
async fn what_is_missing_at_a_destination_is_told_to_the_operator_and_no_event_is_blamed() {
    let scene = Scene::new().await;
    let (kafka, nats, s3) = tokio::join!(shared::kafka(), shared::nats(), shared::s3());
    // The longest interval is short here, so that the test sees delivery go on by itself.
    let common = "delivery_timeout = \"8s\"\nretry = { initial = \"100ms\", max = \"1s\" }\n\
                  batch = { max_wait = \"0s\" }";
    let topic_and_stream = format!(
        "[sinks.topic]\n{common}\n\
         [sinks.topic.kafka]\nbrokers = [\"{}\"]\ntopic = \"not-yet\"\n\
         [sinks.stream]\n{common}\n\
         [sinks.stream.nats]\nservers = [\"{}\"]\nsubject = \"notyet.{{type}}\"\n",
        kafka.bootstrap(),
        nats.url(),
    );
    // Only to be checked: the test's S3 makes a bucket of the first object that is put into it.
    let bucket = s3_settings(s3, "not-yet");
    scene.configure(&format!("{topic_and_stream}[sinks.bucket.s3]\n{bucket}"));
    let checked = scene.sinks(&["check", "--online"]).await;
    let said = checked.failed(5, &["not-yet", "3 of 5 checks failed"]);
    assert_eq!(said.matches("misconfigured: ").count(), 3, "{said}");

    scene.configure(&topic_and_stream);
    let mut worker = scene.run("worker");
    publish(scene.database(), 5).await;
    for (sink, advice) in [("topic", "topic"), ("stream", "stream")] {
        let wrong = |row: &Value| row["last_error_kind"] == "misconfigured";
        let row = scene.status_when(sink, wrong).await;
        assert_eq!(row["state"], "backing-off", "{row}");
        assert!(
            row["last_error"].as_str().unwrap().contains(advice),
            "{row}"
        );
    }
    assert_eq!(worker.count("delivery needs a person"), 2);

    // What the libraries below have to say at each attempt is not for the operator's log.
    let attempts = |row: &Value| row["attempts"].as_u64() >= Some(5);
    scene.status_when("stream", attempts).await;
    assert_eq!(worker.count("async_nats"), 0);
    assert_eq!(worker.count("CONFWARN"), 0);

    kafka.create_topic("not-yet", 1).await;
    let subjects = vec!["notyet.>".to_owned()];
    let stream = async_nats::jetstream::stream::Config {
        name: "NOTYET".to_owned(),
        subjects,
        ..Default::default()
    };
    nats.jetstream().await.create_stream(stream).await.unwrap();
    for sink in ["topic", "stream"] {
        scene.up_to_date(sink).await;
    }
    let all = async || (kafka.messages("not-yet").await.len() == 5).then_some(());
    eventually("the topic has all", all).await;
    worker.stop().await;
}
