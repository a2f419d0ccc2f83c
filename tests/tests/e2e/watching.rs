//! Metrics, health and status of the real binary, as those see them who watch it.

use std::collections::{BTreeMap, BTreeSet};

use outbox_tests::servers::{Postgres, PostgresVersion, Shutdown};
use tokio::net::TcpStream;

use super::fixture::{
    Answer, Running, Scene, configure_via, eventually, in_file, publish, scripted, start_scripted,
};

const PAGES: [&str; 4] = ["/healthz", "/readyz", "/metrics", "/status"];

/// A file and a sink of one's own, which is out while there is a file `broken`.
fn sinks() -> String {
    let custom = scripted(
        "custom",
        "retry = { initial = \"1s\", max = \"2s\" }",
        r#"{ does = "unavailable", while = "broken" }"#,
    );
    format!("[sinks.plain.file]\npath = \"plain.ndjson\"\n{custom}")
}

/// Starts a worker with both.
async fn start(scene: &Scene) -> Running {
    scene.configure(&sinks());
    let worker = scene.run_scripted("worker");
    worker.address().await;
    worker
}

/// Waits until a page is as wanted, and returns it.
async fn page_when(worker: &Running, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let look = async || {
        let answer = worker.get(path).await;
        wanted(&answer).then_some(answer)
    };
    eventually(&format!("{path} as wanted"), look).await
}

/// Each line is a comment about the metric that follows, or a sample of it: a name that was
/// announced, labels of the closed set, and a number. So many metrics there are.
#[track_caller]
fn assert_exposition(text: &str, metrics: usize) {
    let (mut helped, mut typed) = (BTreeSet::new(), BTreeMap::new());
    let mut samples = 0;
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, sentence) = help.split_once(' ').unwrap();
            assert!(sentence.ends_with('.'), "{line}");
            assert!(helped.insert(name), "told twice: {line}");
        } else if let Some(told) = line.strip_prefix("# TYPE ") {
            let (name, kind) = told.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(helped.contains(name), "{line}");
            typed.insert(name, kind);
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let of_histogram = ["_bucket", "_sum", "_count"];
            let base = of_histogram.iter().find_map(|end| name.strip_suffix(end));
            let base = base.filter(|base| typed.get(base) == Some(&"histogram"));
            assert!(typed.contains_key(base.unwrap_or(name)), "{line}");
            assert_labels(labels.strip_suffix('}').unwrap(), line);
            samples += 1;
        }
    }
    assert!(samples > 50, "{samples} samples");
    assert_eq!(typed.len(), metrics, "{typed:?}");
}

fn assert_labels(labels: &str, line: &str) {
    let known = [
        "sink",
        "kind",
        "state",
        "outcome",
        "closed_by",
        "le",
        "version",
    ];
    for label in labels.split(',').filter(|label| !label.is_empty()) {
        let (name, value) = label.split_once('=').unwrap();
        assert!(known.contains(&name), "{line}");
        assert!(
            value.len() > 2 && value.starts_with('"') && value.ends_with('"'),
            "{line}"
        );
    }
}

fn of(answer: &Answer, name: &str, sink: &str) -> Option<f64> {
    answer.metric(&format!("{name}{{sink=\"{sink}\"}}"))
}

#[tokio::test]
async fn counters_are_what_was_published_and_acknowledged() {
    let scene = Scene::new().await;
    let mut worker = start(&scene).await;
    let published = publish(scene.database(), 200).await.len() as f64;
    scene.up_to_date("custom").await;
    scene.up_to_date("plain").await;
    let metrics = worker.get("/metrics").await;
    assert_exposition(&metrics.body, 20);
    let head = &metrics.head;
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    for sink in ["custom", "plain"] {
        let value = |name| of(&metrics, name, sink);
        assert_eq!(value("delivered_events_total"), Some(published), "{sink}");
        assert_eq!(value("batch_events_sum"), Some(published), "{sink}");
        assert_eq!(value("dead_letters_total"), Some(0.0), "{sink}");
        assert_eq!(value("delivered_replays_total"), Some(0.0), "{sink}");
        assert_eq!(value("lease_held"), Some(1.0), "{sink}");
        assert!(value("delivered_payload_bytes_total") > Some(published * 50.0));
    }
    let made = scene.calls("custom").len() as f64;
    let delivered = r#"deliveries_total{sink="custom",outcome="delivered"}"#;
    assert_eq!(metrics.metric(delivered), Some(made));
    let timed = of(&metrics, "delivery_duration_seconds_count", "custom");
    assert_eq!(timed, Some(made));
    for expected in [
        r#"sink_info{sink="custom",kind="scripted"}"#,
        r#"sink_info{sink="plain",kind="file"}"#,
        "database_reachable",
    ] {
        assert_eq!(metrics.metric(expected), Some(1.0), "{expected}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn an_outage_is_seen_and_is_no_reason_to_be_unready() {
    let scene = Scene::new().await;
    scene.break_it("broken");
    let mut worker = start(&scene).await;
    let published = publish(scene.database(), 10).await.len() as f64;
    let backs_off = r#"state{sink="custom",state="backing-off"}"#;
    let waits = |answer: &Answer| {
        let lag = of(answer, "lag_events", "custom");
        answer.metric(backs_off) == Some(1.0) && lag == Some(published)
    };
    let metrics = page_when(&worker, "/metrics", waits).await;
    assert_eq!(of(&metrics, "delivered_events_total", "custom"), Some(0.0));
    assert!(of(&metrics, "attempts", "custom") >= Some(1.0));
    assert!(of(&metrics, "oldest_undelivered_age_seconds", "custom") > Some(0.0));
    let out = r#"deliveries_total{sink="custom",outcome="unavailable"}"#;
    assert!(metrics.metric(out) >= Some(1.0));
    for page in ["/healthz", "/readyz"] {
        assert_eq!(worker.get(page).await.status, 200, "{page}");
    }
    let fails = |answer: &Answer| answer.json()["sinks"][0]["state"] == "backing-off";
    let status = page_when(&worker, "/status", fails).await.json();
    let (row, told) = (&status["sinks"][0], &status["worker"]["loops"][0]);
    for field in ["sink", "last_error_kind", "position"] {
        assert_eq!(row[field], told[field], "{status:#}");
    }
    assert_eq!(told["last_error_kind"], "unavailable");

    scene.mend_it("broken");
    scene.up_to_date("custom").await;
    let metrics = worker.get("/metrics").await;
    let delivered = of(&metrics, "delivered_events_total", "custom");
    assert_eq!(delivered, Some(published));
    assert_eq!(
        in_file(&scene.path("custom.ndjson")).len() as f64,
        published
    );
    worker.stop().await;
}

#[tokio::test]
async fn without_its_database_a_worker_answers_and_is_not_ready() {
    let mut postgres = Postgres::options(PostgresVersion::Oldest).start().await;
    let scene = Scene::on(&postgres).await;
    let worker = start(&scene).await;
    let ready = |answer: &Answer| answer.status == 200;
    page_when(&worker, "/readyz", ready).await;
    publish(scene.database(), 5).await;
    scene.up_to_date("custom").await;
    postgres.stop(Shutdown::Immediate).await;

    let unready = |answer: &Answer| answer.status == 503;
    let answer = page_when(&worker, "/readyz", unready).await.json();
    assert_eq!(answer["ready"], false);
    assert_eq!(answer["reasons"][0]["about"], "database", "{answer:#}");
    assert_eq!(worker.get("/healthz").await.status, 200);
    let gone = |answer: &Answer| of(answer, "lag_events", "custom").is_none();
    let metrics = page_when(&worker, "/metrics", gone).await;
    // Without lag and age.
    assert_exposition(&metrics.body, 18);
    assert_eq!(metrics.metric("database_reachable"), Some(0.0));
    assert_eq!(of(&metrics, "delivered_events_total", "custom"), Some(5.0));
    assert!(metrics.metric("head_poll_failures_total") >= Some(1.0));
    let status = worker.get("/status").await;
    assert_eq!(status.status, 200);
    assert_eq!(status.json()["worker"]["database"]["reachable"], false);

    postgres.start_again().await;
    page_when(&worker, "/readyz", ready).await;
    let known = |answer: &Answer| of(answer, "lag_events", "custom").is_some();
    page_when(&worker, "/metrics", known).await;
}

#[tokio::test]
async fn the_password_of_the_database_is_on_no_page() {
    // H38
    let scene = Scene::new().await;
    let with_password = |url: &str| url.replace("postgres@", "postgres:hunter2@");
    let url = with_password(&scene.database().url());
    assert!(url.contains("hunter2"), "{url}");
    scene.configure(&sinks());
    configure_via(&scene, "worker", &url, "3s", &sinks());
    let mut worker = start_scripted(&scene, "worker");
    publish(scene.database(), 5).await;
    scene.up_to_date("custom").await;
    for page in PAGES {
        let answer = worker.get(page).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(!format!("{answer:?}").contains("hunter2"), "{answer:?}");
    }
    worker.stop().await;
    assert!(!worker.log().contains("hunter2"));
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_and_leaving_the_role_out_needs_none() {
    let scene = Scene::new().await;
    let mut first = start(&scene).await;
    let address = first.address().await;
    let config = format!(
        "[database]\nurl = \"${{DATABASE_URL}}\"\n[http]\nlisten = \"{address}\"\n\
         [sinks.plain.file]\npath = \"second.ndjson\"\n"
    );
    scene.write("second.toml", &config);
    let run = ["run", "--config", "second.toml"];
    let expected = [address.as_str(), "[http] listen", "port 0", "--role"];
    scene.sinks(&run).await.failed(2, &expected);

    let roles = [
        "--config",
        "second.toml",
        "--role",
        "sinks",
        "--role",
        "retention",
    ];
    let mut second = scene.run_with("second", &roles);
    second.says("started", 1).await;
    second.stop().await;
    assert_eq!(second.count("listening for HTTP"), 0);
    first.stop().await;
}

#[tokio::test]
async fn clients_that_hang_delay_neither_others_for_long_nor_a_stop() {
    let scene = Scene::new().await;
    let mut worker = start(&scene).await;
    let address = worker.address().await;
    let mut hanging = Vec::new();
    for _ in 0..200 {
        hanging.push(TcpStream::connect(&address).await.unwrap());
    }
    assert_eq!(worker.get("/healthz").await.status, 200);
    publish(scene.database(), 5).await;
    scene.up_to_date("custom").await;
    for _ in 0..50 {
        hanging.push(TcpStream::connect(&address).await.unwrap());
    }
    worker.stop().await;
    let refused = async || TcpStream::connect(&address).await.err().map(|_| ());
    eventually("the port is free again", refused).await;
    drop(hanging);
}

#[tokio::test]
async fn a_process_with_the_role_http_alone_watches_and_delivers_nothing() {
    let scene = Scene::new().await;
    scene.configure(&sinks());
    let mut watcher = scene.run_scripted_with("watcher", &["--role", "http"]);
    let mut worker = start(&scene).await;
    publish(scene.database(), 5).await;
    scene.up_to_date("custom").await;
    let known = |answer: &Answer| of(answer, "lag_events", "custom") == Some(0.0);
    let metrics = page_when(&watcher, "/metrics", known).await;
    assert_eq!(metrics.metric("database_reachable"), Some(1.0));
    assert_eq!(of(&metrics, "delivered_events_total", "custom"), None);
    assert_eq!(watcher.get("/readyz").await.status, 200);
    for (path, status) in [("/", 404), ("/metricsx", 404), ("/healthz", 200)] {
        assert_eq!(watcher.get(path).await.status, status, "{path}");
    }
    worker.stop().await;
    watcher.stop().await;
}
