//! The commands as an operator goes through them.

use serde_json::Value;
use sqlx::PgConnection;

use super::fixture::{Scene, eventually, in_file, publish};

#[tokio::test]
async fn init_check_migrate_check_online_and_run_lead_to_a_delivered_event() {
    let scene = Scene::empty().await;
    scene.sinks(&["init"]).await.succeeded();
    let checked = scene.sinks(&["check"]).await.succeeded();
    assert!(
        checked.contains("sinks.toml is fine") && checked.contains("events  file"),
        "{checked}"
    );
    scene
        .sinks(&["init"])
        .await
        .failed(2, &["exists already", "--force"]);

    scene
        .sinks(&["check", "--online"])
        .await
        .failed(4, &["sinks migrate"]);
    let migrated = scene.sinks(&["migrate"]).await.succeeded();
    assert_eq!(migrated, "created the outbox in schema public\n");
    assert!(
        scene
            .sinks(&["migrate"])
            .await
            .succeeded()
            .contains("up to date")
    );
    scene.sinks(&["check", "--online"]).await.succeeded();

    let mut worker = scene.run("worker");
    let line = "{\"type\":\"order.paid\",\"tenantId\":\"t\",\"subject\":\"order/7\",\"data\":{\"total\":1.10}}\n";
    assert_eq!(
        scene.sinks_with(&["publish"], line).await.succeeded(),
        "published 1\n"
    );
    let file = scene.path("events.ndjson");
    let arrived = async || in_file(&file).first().cloned();
    assert_eq!(
        eventually("the event arrives", arrived).await.key,
        "order/7"
    );
    worker.stop().await;
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("\"total\": 1.10"), "{written}");
}

async fn events(connection: &mut PgConnection) -> i64 {
    sqlx::query_scalar("select count(*) from outbox")
        .fetch_one(connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_wrong_line_is_named_its_batch_is_not_published_and_the_count_is_right() {
    let scene = Scene::new().await;
    let mut connection = scene.connect().await;
    let good = "{\"type\":\"a.b\",\"tenantId\":\"t\",\"subject\":\"s\"}\n";
    for (bad, reason) in [
        (
            "{\"type\":\"nodot\",\"tenantId\":\"t\",\"subject\":\"s\"}",
            "type must be area.name",
        ),
        (
            "{\"type\":\"a.b\",\"tenantId\":\"t\"}",
            "missing field `subject`",
        ),
        (
            "{\"type\":\"a.b\",\"tenantId\":\"t\",\"subject\":\"s\",\"data\":\"\\u0000\"}",
            "data",
        ),
        ("not json", "not a JSON object"),
    ] {
        let before = events(&mut connection).await;
        let input = format!("{}{bad}\n{good}", good.repeat(5));
        let refused = scene.sinks_with(&["publish", "--batch", "2"], &input).await;
        refused.failed(2, &["line 6: INVALID_INPUT", reason, "published 4"]);
        assert_eq!(events(&mut connection).await - before, 4, "{bad}");
    }
}

#[tokio::test]
async fn status_shows_each_sink_to_people_and_to_programs() {
    let scene = Scene::new().await;
    let gone = "[sinks.gone.file]\npath = \"gone.ndjson\"\n";
    let kept = "[sinks.kept.file]\npath = \"kept.ndjson\"\n";
    scene.configure(&format!("{gone}{kept}"));
    let mut worker = scene.run("worker");
    publish(scene.database(), 5).await;
    scene.up_to_date("gone").await;
    scene.up_to_date("kept").await;
    worker.stop().await;
    publish(scene.database(), 5).await;
    scene.configure(&format!("{kept}[sinks.new.file]\npath = \"new.ndjson\"\n"));

    scene
        .status_when("kept", |row| row["lag_events"] == 5)
        .await;
    let shown = scene.sinks(&["status", "--json"]).await.succeeded();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let states: Vec<_> = shown["sinks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["state"])
        .collect();
    assert_eq!(states, ["not-configured", "free", "never-run"]);

    let table = scene.sinks(&["status"]).await.succeeded();
    let rows: Vec<Vec<_>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0][..4], ["SINK", "STATE", "POSITION", "LAG"]);
    assert_eq!(rows[1][..3], ["gone", "not", "configured"]);
    assert_eq!(rows[2][..2], ["kept", "free"]);
    assert_eq!(
        (rows[2][3], rows[3][..3].join(" ").as_str()),
        ("5", "new never run")
    );
}
