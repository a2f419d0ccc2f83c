//! What was published arrives as it was written, at every sink and in every format.

use async_nats::jetstream::stream::Config;
use outbox_tests::servers::{S3, shared};
use sqlx::{Executor, PgConnection};

use super::fixture::{Scene, s3_settings};

/// More digits than a double has, a zero that a parser would drop, and more than 64 bits.
const DATA: &str = r#"{"n":1234567890123456789, "m":1.10, "k":18446744073709551616}"#;

/// Each kind with each of its formats, as `kind` and `format`.
const SINKS: [(&str, &str); 10] = [
    ("kafka", "native"),
    ("kafka", "cloudevents"),
    ("kafka", "cloudevents-binary"),
    ("nats", "native"),
    ("nats", "cloudevents"),
    ("nats", "cloudevents-binary"),
    ("s3", "native"),
    ("s3", "cloudevents"),
    ("file", "native"),
    ("file", "cloudevents"),
];

/// A topic, stream, bucket or file of its own for each sink, all with the sink's name.
async fn prepare(scene: &Scene) {
    let (kafka, nats, s3) = tokio::join!(shared::kafka(), shared::nats(), shared::s3());
    let jetstream = nats.jetstream().await;
    let mut config = String::new();
    for (kind, format) in SINKS {
        let name = format!("{kind}-{format}");
        let place = match kind {
            "kafka" => {
                kafka.create_topic(&name, 1).await;
                format!("brokers = [\"{}\"]\ntopic = \"{name}\"", kafka.bootstrap())
            }
            "nats" => {
                let subjects = vec![format!("{name}.>")];
                let stream = Config {
                    name: name.clone(),
                    subjects,
                    ..Config::default()
                };
                jetstream.create_stream(stream).await.unwrap();
                format!(
                    "servers = [\"{}\"]\nsubject = \"{name}.{{type}}\"",
                    nats.url()
                )
            }
            "s3" => {
                s3.create_bucket(&name);
                let place = s3_settings(s3, &name);
                format!("partition_by = [\"date\"]\n{place}")
            }
            _ => format!("path = \"{name}.ndjson\""),
        };
        config.push_str(&format!(
            "[sinks.{name}]\nbatch = {{ max_wait = \"0s\" }}\n\
             [sinks.{name}.{kind}]\nformat = \"{format}\"\n{place}\n"
        ));
    }
    scene.configure(&config);
}

/// The bodies that a sink has delivered, as text.
pub(crate) async fn bodies(scene: &Scene, kind: &str, name: &str) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a body is text");
    match kind {
        "kafka" => {
            let messages = shared::kafka().await.messages(name).await;
            messages
                .iter()
                .map(|message| text(message.payload.as_deref().unwrap()))
                .collect()
        }
        "nats" => {
            let jetstream = shared::nats().await.jetstream().await;
            let stream = jetstream.get_stream(name).await.unwrap();
            let mut bodies = Vec::new();
            for sequence in 1..=stream.get_info().await.unwrap().state.messages {
                bodies.push(text(
                    &stream.get_raw_message(sequence).await.unwrap().payload,
                ));
            }
            bodies
        }
        "s3" => objects(shared::s3().await, name),
        _ => lines(&std::fs::read(scene.path(&format!("{name}.ndjson"))).unwrap()),
    }
}

/// The lines of all objects in a bucket, in the order of their names within their folders.
fn objects(s3: &S3, bucket: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut folders = vec![s3.root().join(bucket)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => paths.push(path),
            }
        }
    }
    paths.retain(|path| path.to_string_lossy().ends_with(".ndjson.zst"));
    paths.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    let read = |path| lines(&zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap());
    paths.into_iter().flat_map(read).collect()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8(bytes.to_vec())
        .unwrap()
        .lines()
        .map(ToOwned::to_owned)
        .collect()
}

async fn insert(connection: &mut PgConnection, n: u8, time: &str, created_at: &str) {
    let sql = "insert into outbox (topic, payload, created_at)
               values ('odd.time', jsonb_build_object('id', 'evt_' || $1, 'type', 'odd.time',
                   'tenantId', 't', 'subject', 's', 'time', $2::text, 'data', '{}'::jsonb),
                   $3::text::timestamptz)";
    let query = sqlx::query(sql)
        .bind(i32::from(n))
        .bind(time)
        .bind(created_at);
    query.execute(connection).await.unwrap();
}

#[tokio::test]
async fn digits_and_strange_times_arrive_as_they_were_written_in_every_format() {
    // C6, C12
    let scene = Scene::new().await;
    Box::pin(prepare(&scene)).await;
    let mut connection = scene.connect().await;
    let publish = format!("select outbox_publish('number.told', 't', 's', '{DATA}')");
    connection
        .execute(sqlx::AssertSqlSafe(publish))
        .await
        .unwrap();
    insert(&mut connection, 2, "2026-09-24T10:15:02.114Z", "infinity").await;
    insert(&mut connection, 3, "infinity", "-infinity").await;
    insert(
        &mut connection,
        4,
        "292277026596-12-04T15:30:07Z",
        "infinity",
    )
    .await;

    let mut worker = scene.run("worker");
    for (kind, format) in SINKS {
        scene.up_to_date(&format!("{kind}-{format}")).await;
    }
    worker.stop().await;

    for (kind, format) in SINKS {
        let name = format!("{kind}-{format}");
        let bodies = bodies(&scene, kind, &name).await;
        assert_eq!(bodies.len(), 4, "{name}: {bodies:?}");
        let told = bodies
            .iter()
            .find(|body| body.contains("123456789"))
            .expect("the numbers");
        for (field, digits) in [
            ("n", "1234567890123456789"),
            ("m", "1.10"),
            ("k", "18446744073709551616"),
        ] {
            let written = format!("\"{field}\": {digits}");
            let end = told
                .split_once(&written)
                .map(|(_, after)| after.chars().next());
            assert!(
                matches!(end, Some(Some(',' | '}'))),
                "{name}: {written} in {told}"
            );
        }
    }
}
