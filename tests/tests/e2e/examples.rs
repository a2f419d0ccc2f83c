//! The examples do what their texts say.

use super::fixture::{
    Scene, eventually, example_custom_sink, example_publish, in_file, publish, published,
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
    let program = example_custom_sink();
    scene.configure("[sinks.tally.counter]\npath = \"counts.txt\"\n");
    let checked = scene
        .finish(program, &["check", "--online"])
        .await
        .succeeded();
    assert!(checked.contains("sink tally (counter)"), "{checked}");

    let mut worker = scene.start("tally", program, &["run"]);
    publish(scene.database(), 20).await;
    let counted = async || {
        let text = std::fs::read_to_string(scene.path("counts.txt")).unwrap_or_default();
        let numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .filter(|part| !part.is_empty());
        (numbers
            .map(|number| number.parse::<u32>().unwrap())
            .sum::<u32>()
            == 20)
            .then_some(())
    };
    eventually("all are counted", counted).await;
    let shown = scene.finish(program, &["status"]).await.succeeded();
    assert!(shown.contains("tally"), "{shown}");
    worker.stop().await;
}

#[tokio::test]
async fn a_table_of_ones_own_is_read_as_strictly_as_the_rest() {
    let scene = Scene::new().await;
    scene.write(
        "sinks.toml",
        "[database]\nurl = \"${DATABASE_URL}\"\n[sinks.tally.counter]\npath = \"counts.txt\"\npaht = 1\n",
    );
    let refused = scene.finish(example_custom_sink(), &["run"]).await;
    refused.failed(
        2,
        &["sinks.toml:5:1: sinks.tally.counter.paht: unknown key; did you mean `path`?"],
    );

    scene.configure("[sinks.tally.kafka]\nbrokers = [\"one:9092\"]\n");
    let refused = scene.finish(example_custom_sink(), &["check"]).await;
    refused.failed(2, &["kafka"]);
}
