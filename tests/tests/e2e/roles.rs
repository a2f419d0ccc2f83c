//! The grants of `sinks migrate --publisher --worker` are enough, and no more than that.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::fixture::{Scene, eventually, in_file, published};

#[tokio::test]
async fn a_publisher_and_a_worker_need_no_more_than_they_are_granted() {
    let scene = Scene::new().await;
    let database = scene.database();
    // Roles belong to the whole server, which is shared.
    let role = |what: &str| format!("{what}_of_{}", database.name());
    let (app, worker) = (role("app"), role("worker"));
    let mut owner = scene.connect().await;
    for role in [&app, &worker] {
        owner
            .execute(AssertSqlSafe(format!("create role {role} login")))
            .await
            .unwrap();
    }
    let granted = scene
        .sinks(&["migrate", "--publisher", &app, "--worker", &worker])
        .await;
    let granted = granted.succeeded();
    assert!(
        granted.contains(&format!("role {worker} may run a worker")),
        "{granted}"
    );

    let url = |role: &str| database.url().replace("postgres@", &format!("{role}@"));
    let sinks = "[sinks.x.file]\npath = \"x.ndjson\"\n";
    for (file, role) in [("app.toml", &app), ("worker.toml", &worker)] {
        scene.write(
            file,
            &format!("[database]\nurl = \"{}\"\n{sinks}", url(role)),
        );
    }
    let event = "{\"type\":\"a.b\",\"tenantId\":\"t\",\"subject\":\"s\"}\n";
    let publish = ["publish", "--config", "app.toml"];
    assert_eq!(
        scene.sinks_with(&publish, event).await.succeeded(),
        "published 1\n"
    );
    let mut running = scene.run_with("worker", &["--config", "worker.toml"]);
    let file = scene.path("x.ndjson");
    eventually("the event arrives", async || {
        (!in_file(&file).is_empty()).then_some(())
    })
    .await;
    scene
        .sinks(&["status", "--config", "worker.toml"])
        .await
        .succeeded();
    scene
        .sinks(&["check", "--online", "--config", "worker.toml"])
        .await
        .succeeded();
    running.stop().await;

    let wrong = ["publish", "--config", "worker.toml"];
    scene
        .sinks_with(&wrong, event)
        .await
        .failed(3, &["permission denied", "grant"]);
    let mut app = PgConnection::connect(&url(&app)).await.unwrap();
    assert!(
        app.execute("select * from outbox").await.is_err(),
        "a publisher can't read"
    );
    assert_eq!(published(database).await.len(), 1);
}
