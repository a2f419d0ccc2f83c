//! The examples do what their texts say.

use outbox_tests::servers::Redis;

use super::fixture::{
    Scene, eventually, example_closure, example_publish, example_redis_streams, in_file, publish,
    published,
};

#[tokio::test]
async fn the_application_publishes_with_its_change_and_the_event_is_delivered() {
    let scene = Scene::new().await;
    scene.configure("[sinks.x.file]\npath = \"x.ndjson\"\n");
    let said = scene.finish(example_publish(), &[]).await.succeeded();
    let events = published(scene.database()).await;
    assert_eq!(events.len(), 1);
    let (id, position) = (&events[0].id, events[0].position);
    assert_eq!(
        said,
        format!("order 1 is paid; event {id} is at {position}\n")
    );

    let mut worker = scene.run("worker");
    let file = scene.path("x.ndjson");
    let arrived = async || (in_file(&file) == events).then_some(());
    eventually("the event arrives", arrived).await;
    worker.stop().await;
}

#[tokio::test]
async fn a_sink_of_ones_own_has_the_whole_command_line() {
    let scene = Scene::new().await;
    let program = example_closure();
    scene.configure("[sinks.diary.journal]\npath = \"journal.ndjson\"\n");
    let checked = scene
        .finish(program, &["check", "--online"])
        .await
        .succeeded();
    assert!(checked.contains("sink diary (journal)"), "{checked}");

    let mut worker = scene.start("diary", program, &["run"]);
    let events = publish(scene.database(), 20).await;
    let file = scene.path("journal.ndjson");
    let arrived = async || (in_file(&file) == events).then_some(());
    eventually("all are written", arrived).await;
    let shown = scene.finish(program, &["status"]).await.succeeded();
    assert!(shown.contains("diary"), "{shown}");
    worker.stop().await;
}

#[tokio::test]
async fn a_table_of_ones_own_is_read_as_strictly_as_the_rest() {
    let scene = Scene::new().await;
    let program = example_closure();
    scene.write(
        "sinks.toml",
        "[database]\nurl = \"${DATABASE_URL}\"\n[sinks.diary.journal]\npath = \"x\"\npaht = 1\n",
    );
    let refused = scene.finish(program, &["run"]).await;
    refused.failed(
        2,
        &["sinks.toml:5:1: sinks.diary.journal.paht: unknown key; did you mean `path`?"],
    );

    scene.configure("[sinks.diary.kafka]\nbrokers = [\"one:9092\"]\n");
    let refused = scene.finish(program, &["check"]).await;
    refused.failed(2, &["kafka"]);
}

#[tokio::test]
async fn an_editor_learns_of_a_table_of_ones_own() {
    let scene = Scene::empty().await;
    let schema = scene
        .finish(example_closure(), &["config", "schema"])
        .await
        .succeeded();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let sink = &schema["properties"]["sinks"]["additionalProperties"];
    assert_eq!(
        sink["oneOf"],
        serde_json::json!([{"required": ["journal"]}])
    );
    let journal = &sink["properties"]["journal"];
    assert_eq!(journal["required"], serde_json::json!(["path"]));
    assert_eq!(journal["additionalProperties"], false);
    let path = &journal["properties"]["path"]["description"];
    assert_eq!(path, "The file that is appended to.");
}

#[test]
fn a_sink_of_ones_own_takes_less_than_thirty_lines() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let text = std::fs::read_to_string(format!("{root}/examples/closure/src/main.rs")).unwrap();
    let lines = text.lines().count();
    assert!((10..30).contains(&lines), "{lines} lines");
}

#[tokio::test]
async fn the_sink_for_redis_streams_is_checked_runs_and_goes_on_after_an_outage() {
    let scene = Scene::new().await;
    let mut redis = Redis::options().password("hunter2").start().await;
    let program = example_redis_streams();
    scene.write("password", "hunter2\n");
    let settings = format!(
        "[sinks.feed.redis]\nurl = \"{}\"\npassword_file = \"password\"\nstream = \"feed\"\n",
        redis.url()
    );
    scene.configure(&settings);
    let checked = scene
        .finish(program, &["check", "--online"])
        .await
        .succeeded();
    assert!(checked.contains("sink feed (redis)"), "{checked}");

    let mut worker = scene.start("redis", program, &["run"]);
    publish(scene.database(), 20).await;
    let arrived = async |redis: &Redis, count: usize| {
        let entries = redis.entries("feed").await;
        (entries.len() >= count).then_some(entries)
    };
    eventually("20 events arrive", async || arrived(&redis, 20).await).await;
    redis.kill().await;
    publish(scene.database(), 20).await;
    redis.start_again().await;
    let entries = eventually("40 events arrive", async || arrived(&redis, 40).await).await;
    let mut ids: Vec<_> = entries.iter().map(|entry| entry.field("id")).collect();
    // The batch that was on its way when the server died may be there twice.
    let mut seen = std::collections::HashSet::new();
    ids.retain(|id| seen.insert(*id));
    let events = published(scene.database()).await;
    let expected: Vec<_> = events.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids, expected);
    let shown = scene.finish(program, &["status"]).await.succeeded();
    assert!(shown.contains("feed"), "{shown}");
    worker.stop().await;
}

#[tokio::test]
async fn the_sink_for_redis_streams_refuses_wrong_settings_by_line_and_says_what_to_do() {
    let scene = Scene::new().await;
    let program = example_redis_streams();
    scene.write(
        "sinks.toml",
        "[database]\nurl = \"${DATABASE_URL}\"\n[sinks.feed.redis]\nurl = \"http://:hunter2@h\"\nstraem = \"x\"\n",
    );
    let refused = scene.finish(program, &["run"]).await;
    refused.failed(
        2,
        &["sinks.toml:5:1: sinks.feed.redis.straem: unknown key; did you mean `stream`?"],
    );

    let redis = Redis::options().no_log().start().await;
    scene.configure(&format!("[sinks.feed.redis]\nurl = \"{}\"\n", redis.url()));
    let refused = scene.finish(program, &["check", "--online"]).await;
    refused.failed(5, &["sink feed (redis)", "set appendonly to yes"]);
}
