//! The grants of `sinks migrate` are enough for each duty, and no more than that.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::fixture::{Scene, eventually, in_file, published};

#[tokio::test]
async fn nobody_needs_more_than_what_is_granted_for_the_duty() {
    let scene = Scene::new().await;
    let database = scene.database();
    // Roles belong to the whole server, which is shared.
    let role = |what: &str| format!("{what}_of_{}", database.name());
    let (app, worker, ops) = (role("app"), role("worker"), role("ops"));
    let mut owner = scene.connect().await;
    for role in [&app, &worker, &ops] {
        owner
            .execute(AssertSqlSafe(format!("create role {role} login")))
            .await
            .unwrap();
    }
    let granted = scene
        .sinks(&[
            "migrate",
            "--publisher",
            &app,
            "--worker",
            &worker,
            "--retention",
            &worker,
            "--operator",
            &ops,
        ])
        .await;
    let granted = granted.succeeded();
    assert!(
        granted.contains(&format!("role {worker} may run a worker")),
        "{granted}"
    );

    let url = |role: &str| database.url().replace("postgres@", &format!("{role}@"));
    let sinks = "[sinks.x.file]\npath = \"x.ndjson\"\n";
    for (file, role) in [
        ("app.toml", &app),
        ("worker.toml", &worker),
        ("ops.toml", &ops),
    ] {
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
    scene
        .sinks(&["prune", "--config", "worker.toml"])
        .await
        .succeeded();
    for (order, told) in [
        (&["pause", "x"][..], "has obeyed"),
        (&["seek", "x", "--to", "beginning"], "has obeyed"),
        (&["resume", "x"], "has obeyed"),
        (&["dead-letters", "discard", "--all"], "no dead letter"),
        (&["prune", "--dry-run"], "would be deleted"),
        (&["status", "--operations"], "beginning"),
    ] {
        let order = [order, &["--config", "ops.toml"]].concat();
        let shown = scene.sinks(&order).await.succeeded();
        assert!(shown.contains(told), "{order:?}: {shown}");
    }
    eventually("the event arrives again", async || {
        (in_file(&file).len() == 2).then_some(())
    })
    .await;
    running.stop().await;

    let wrong = ["publish", "--config", "worker.toml"];
    scene
        .sinks_with(&wrong, event)
        .await
        .failed(3, &["permission denied", "grant"]);
    scene
        .sinks(&["prune", "--config", "ops.toml"])
        .await
        .failed(3, &["permission denied"]);
    scene
        .sinks(&["adopt", "--config", "ops.toml"])
        .await
        .succeeded();
    let mut app = PgConnection::connect(&url(&app)).await.unwrap();
    assert!(
        app.execute("select * from outbox").await.is_err(),
        "a publisher can't read"
    );
    assert_eq!(published(database).await.len(), 1);
}
