//! The grants of `sinks migrate` are enough for each duty, and no more than that.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::fixture::{Scene, eventually, in_file, published};

const EVENT: &str = "{\"type\":\"a.b\",\"tenantId\":\"t\",\"subject\":\"s\"}\n";

/// A scene in which each duty has a role and a configuration of its own: `app.toml`,
/// `worker.toml` and `ops.toml`. Returns the scene and the publisher's URL.
async fn granted() -> (Scene, String) {
    let scene = Scene::new().await;
    let database = scene.database();
    // Roles belong to the whole server, which is shared.
    let role = |what: &str| format!("{what}_of_{}", database.name());
    let url = |role: &str| database.url().replace("postgres@", &format!("{role}@"));
    let [app, worker, ops] = ["app", "worker", "ops"].map(role);
    let mut owner = scene.connect().await;
    let sinks = "[http]\nlisten = \"127.0.0.1:0\"\n[sinks.x.file]\npath = \"x.ndjson\"\n";
    for (file, role) in [
        ("app.toml", &app),
        ("worker.toml", &worker),
        ("ops.toml", &ops),
    ] {
        let create = format!("create role {role} login");
        owner.execute(AssertSqlSafe(create)).await.unwrap();
        let text = format!("[database]\nurl = \"{}\"\n{sinks}", url(role));
        scene.write(file, &text);
    }
    let duties = [
        ("--publisher", &app),
        ("--worker", &worker),
        ("--retention", &worker),
        ("--operator", &ops),
    ];
    let mut migrate = vec!["migrate"];
    for (duty, role) in duties {
        migrate.extend([duty, role.as_str()]);
    }
    let granted = scene.sinks(&migrate).await.succeeded();
    let told = format!("role {worker} may run a worker");
    assert!(granted.contains(&told), "{granted}");
    let app = url(&app);
    (scene, app)
}

/// Waits until so many events have arrived.
async fn arrived(scene: &Scene, events: usize) {
    let file = scene.path("x.ndjson");
    eventually("the event arrives", async || {
        (in_file(&file).len() == events).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_publisher_and_a_worker_need_no_more_than_they_are_granted() {
    let (scene, app) = granted().await;
    let publish = ["publish", "--config", "app.toml"];
    assert_eq!(
        scene.sinks_with(&publish, EVENT).await.succeeded(),
        "published 1\n"
    );
    let mut running = scene.run_with("worker", &["--config", "worker.toml"]);
    arrived(&scene, 1).await;
    for command in [&["status"][..], &["check", "--online"], &["prune"]] {
        let command = [command, &["--config", "worker.toml"]].concat();
        scene.sinks(&command).await.succeeded();
    }
    running.stop().await;

    let wrong = ["publish", "--config", "worker.toml"];
    scene
        .sinks_with(&wrong, EVENT)
        .await
        .failed(3, &["permission denied", "grant"]);
    let mut app = PgConnection::connect(&app).await.unwrap();
    assert!(
        app.execute("select * from outbox").await.is_err(),
        "a publisher can't read"
    );
    assert_eq!(published(scene.database()).await.len(), 1);
}

#[tokio::test]
async fn an_operator_needs_no_more_than_is_granted() {
    let (scene, _) = granted().await;
    let publish = ["publish", "--config", "app.toml"];
    scene.sinks_with(&publish, EVENT).await.succeeded();
    let mut running = scene.run_with("worker", &["--config", "worker.toml"]);
    arrived(&scene, 1).await;
    for (order, told) in [
        (&["pause", "x"][..], "has obeyed"),
        (&["seek", "x", "--to", "beginning"], "has obeyed"),
        (&["resume", "x"], "has obeyed"),
        (&["dead-letters", "discard", "--all"], "no dead letter"),
        (&["prune", "--dry-run"], "would be deleted"),
        (&["status", "--operations"], "beginning"),
        (&["adopt"], "nothing to adopt"),
    ] {
        let order = [order, &["--config", "ops.toml"]].concat();
        let shown = scene.sinks(&order).await.succeeded();
        assert!(shown.contains(told), "{order:?}: {shown}");
    }
    arrived(&scene, 2).await;
    let forget = ["forget", "x", "--config", "ops.toml"];
    scene
        .sinks(&forget)
        .await
        .failed(7, &["held by a running worker"]);
    running.stop().await;
    scene.sinks(&forget).await.succeeded();
    scene
        .sinks(&["prune", "--config", "ops.toml"])
        .await
        .failed(3, &["permission denied"]);
}
