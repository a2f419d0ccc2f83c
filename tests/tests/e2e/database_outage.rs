//! The database goes down and comes back, or freezes: nothing hangs, nothing is lost, and the log
//! does not grow with the length of it.

use outbox_tests::servers::{Postgres, PostgresVersion, Shutdown};

use super::fixture::{
    Running, Scene, assert_complete_in_order, distinct, eventually, in_file, publish,
};

const SINKS: &str = r#"
[sinks.one.file]
path = "one.ndjson"
[sinks.two.file]
path = "two.ndjson"
"#;

const DOWN: &str = "database does not answer";
const BACK: &str = "database answers again";

/// Everything in the outbox is in both files.
async fn all_arrives(scene: &Scene, count: usize) {
    let published = publish(scene.database(), count).await;
    for name in ["one.ndjson", "two.ndjson"] {
        let file = scene.path(name);
        let all = async || (distinct(&in_file(&file)) >= published.len()).then_some(());
        eventually("all is delivered", all).await;
        assert_complete_in_order(name, &in_file(&file), &published);
    }
}

/// Waits until both loops have let go of what they held: because the lease ran out, or
/// because the connection broke under a write. Which of them comes first is chance.
async fn both_let_go(worker: &Running, before: usize) {
    let both = async || (let_go(worker) >= before + 2).then_some(());
    eventually("both loops let go", both).await;
}

fn let_go(worker: &Running) -> usize {
    worker.count("another worker may go on") + worker.count("reading anew from the cursor")
}

/// B22: some lines for each outage and each sink, and not one for each attempt.
fn assert_quiet(worker: &Running, outages: usize) {
    let complaints = worker.count("WARN") + worker.count("ERROR");
    assert!(
        complaints <= outages * 12,
        "{complaints} complaints about {outages} outages"
    );
}

#[tokio::test]
async fn a_database_that_goes_down_or_freezes_loses_nothing_and_is_told_once() {
    let mut postgres = Postgres::options(PostgresVersion::Newest).start().await;
    let scene = Scene::on(&postgres).await;
    scene.write(
        "sinks.toml",
        &format!(
            "[database]\nurl = \"${{DATABASE_URL}}\"\nconnect_timeout = \"1s\"\n\
             statement_timeout = \"1s\"\n[worker]\nlease_ttl = \"2s\"\n\
             [http]\nlisten = \"127.0.0.1:0\"\n{SINKS}"
        ),
    );
    let mut worker = scene.run("worker");
    all_arrives(&scene, 40).await;

    // 1. Down, until the leases have run out.
    postgres.stop(Shutdown::Immediate).await;
    worker.says(DOWN, 1).await;
    both_let_go(&worker, 0).await;
    postgres.start_again().await;
    worker.says(BACK, 1).await;
    all_arrives(&scene, 40).await;
    assert_quiet(&worker, 1);

    // 2. B1, B4: frozen, connections open, no answer, for longer than a statement may take.
    let asked_in_vain = worker.count("can't ask for the lease");
    let had_let_go = let_go(&worker);
    postgres.pause();
    worker.says(DOWN, 2).await;
    both_let_go(&worker, had_let_go).await;
    worker
        .says("can't ask for the lease", asked_in_vain + 2)
        .await;
    postgres.resume();
    worker.says(BACK, 2).await;
    all_arrives(&scene, 40).await;
    assert_quiet(&worker, 2);

    assert!(worker.runs());
    assert_eq!(
        (worker.count(DOWN), worker.count(BACK)),
        (2, 2),
        "a line at start and end"
    );
    worker.stop().await;
}
