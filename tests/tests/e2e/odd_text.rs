//! Payloads that are JSON by its grammar and that no Postgres text can hold (C1): such a row passes
//! through as it is or is set aside alone, and the others flow.

use async_nats::jetstream::stream::Config;
use outbox_tests::servers::shared;
use sqlx::{AssertSqlSafe, Executor};

use super::digits::bodies;
use super::fixture::{Scene, s3_settings};

/// What an application may write to a `json` column, where only the grammar is checked. Each has a
/// mark that shows where it has come to.
const ODD: [&str; 8] = [
    r#"{"id":"o1","type":"a.b","tenantId":"t","subject":"s/1","data":["<o1>","\u0000"]}"#,
    r#"{"id":"o2","type":"a.b","tenantId":"t","subject":"s/1","data":["<o2>","\ud800"]}"#,
    r#"{"id":"o3","type":"a.b","tenantId":"t\u0000","subject":"s/1","data":["<o3>"]}"#,
    r#"{"id":"o4","type":"a.b","tenantId":"t","subject":"\udc00","data":["<o4>"]}"#,
    r#"{"id":"o5","type":"a.b","tenantId":"t","subject":"s\u0000","data":["<o5>"]}"#,
    r#"{"id":"o\u0000","type":"a.b","tenantId":"t","subject":"s/1","data":["<o6>"]}"#,
    r#"{"id":"o7","type":"a.\ud800","tenantId":"t","subject":"s/1","data":["<o7>"]}"#,
    r#"{"id":"o8","type":"a.b","tenantId":"t","subject":"s/1","time":"\u0000","data":["<o8>"]}"#,
];
const GOOD: [&str; 2] = ["<before>", "<after>"];

const SINKS: [(&str, &str); 5] = [
    ("file", "odd-file"),
    ("kafka", "odd-kafka"),
    ("nats", "odd-nats"),
    ("s3", "odd-s3"),
    ("file", "odd-tenant"),
];

async fn configure(scene: &Scene) {
    let (kafka, nats, s3) = tokio::join!(shared::kafka(), shared::nats(), shared::s3());
    kafka.create_topic("odd-kafka", 1).await;
    let stream = Config {
        name: "odd-nats".to_owned(),
        subjects: vec!["odd-nats.>".to_owned()],
        ..Config::default()
    };
    let jetstream = nats.jetstream().await;
    jetstream.create_stream(stream).await.unwrap();
    s3.create_bucket("odd-s3");
    let (brokers, servers) = (kafka.bootstrap(), nats.url());
    let bucket = s3_settings(s3, "odd-s3");
    scene.configure(&format!(
        "[sinks.odd-file.file]\npath = \"odd-file.ndjson\"\n\
         [sinks.odd-kafka.kafka]\nbrokers = [\"{brokers}\"]\ntopic = \"odd-kafka\"\n\
         format = \"cloudevents-binary\"\n\
         [sinks.odd-nats.nats]\nservers = [\"{servers}\"]\nsubject = \"odd-nats.{{type}}\"\n\
         [sinks.odd-s3]\nbatch = {{ max_wait = \"0s\" }}\n\
         [sinks.odd-s3.s3]\npartition_by = [\"tenantId\"]\n{bucket}\
         [sinks.odd-tenant]\ntenants = [\"t\"]\n\
         [sinks.odd-tenant.file]\npath = \"odd-tenant.ndjson\"\n"
    ));
}

#[tokio::test]
async fn a_payload_that_no_text_can_hold_harms_itself_alone() {
    let scene = Scene::new().await;
    Box::pin(configure(&scene)).await;
    let mut connection = scene.connect().await;
    // The tenants' index would refuse such rows itself.
    connection
        .execute("drop index outbox_tenant_cursor; alter table outbox alter payload type json")
        .await
        .unwrap();
    let good = |mark: &str| {
        format!(
            r#"{{"id":"{mark}","type":"a.b","tenantId":"t","subject":"s/1","data":["{mark}"]}}"#
        )
    };
    let rows = [good(GOOD[0])].into_iter().chain(ODD.map(str::to_owned));
    for payload in rows.chain([good(GOOD[1])]) {
        let sql = format!("insert into outbox (topic, payload) values ('a.b', '{payload}')");
        connection.execute(AssertSqlSafe(sql)).await.unwrap();
    }
    let mut worker = scene.run("worker");
    for (_, name) in SINKS {
        scene.up_to_date(name).await;
    }
    worker.stop().await;

    for (kind, name) in SINKS {
        let delivered = bodies(&scene, kind, name).await;
        let dead = scene.dead_letters(name).await;
        let count = |mark: &str| delivered.iter().filter(|body| body.contains(mark)).count();
        for mark in GOOD {
            assert_eq!(count(mark), 1, "{name}: {mark} in {delivered:?}");
        }
        for number in 1..=ODD.len() {
            let mark = format!("<o{number}>");
            let set_aside = dead
                .iter()
                .filter(|letter| letter["payload"].as_str().unwrap().contains(&mark));
            // The third is of another tenant.
            let expected = usize::from(!(name == "odd-tenant" && number == 3));
            assert_eq!(
                count(&mark) + set_aside.count(),
                expected,
                "{name}: {mark}, {dead:?}"
            );
        }
        // Where only the data is odd it passes through as it was written.
        assert!(
            delivered
                .iter()
                .any(|body| body.contains(r#""<o1>","\u0000""#)),
            "{name}"
        );
        assert!(
            delivered
                .iter()
                .any(|body| body.contains(r#""<o2>","\ud800""#)),
            "{name}"
        );
    }
}
