//! A gate against getting slower that noise does not break: how many instructions the relay takes
//! for one event, counted by callgrind, against the figure that is committed beside this file.
//!
//! Counted is the whole binary `sinks`, optimised, as it reads, encodes and settles a hundred
//! thousand events of 300 bytes into a file. The kernel's work and Postgres' is not counted, nor that of
//! a client library: those are up to `make bench`.
#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use outbox_tests::servers::{Database, PostgresVersion, shared};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{AssertSqlSafe, Executor, PgConnection};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

const EVENTS: i64 = 100_000;
/// How far the count may lie above the committed one. Between runs of one binary it differs by
/// up to 3 %: the head is looked at by the clock, and under callgrind that is slow.
const TOLERANCE: f64 = 0.08;
/// Under callgrind everything takes some fifty times as long.
const PATIENCE: Duration = Duration::from_secs(300);

const CONFIG: &str = r#"
[database]
url = "${DATABASE_URL}"
[worker]
roles = ["sinks"]
lease_ttl = "10m"
[sinks.file.file]
path = "events.ndjson"
sync = false
"#;

/// The committed figure, in instructions for one event.
fn committed() -> f64 {
    let text = include_str!("instructions_per_event.txt");
    text.trim().parse().expect("the file holds a number")
}

#[tokio::test]
async fn an_event_takes_no_more_instructions_than_it_did() {
    let sinks = build();
    let database = shared::postgres(PostgresVersion::Newest)
        .await
        .database()
        .await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("sinks.toml"), CONFIG).unwrap();
    let migrated = command(Command::new(&sinks), &database, folder.path())
        .arg("migrate")
        .status()
        .await
        .unwrap();
    assert!(migrated.success());
    let mut connection = database.connect().await;
    fill(&mut connection).await;

    let counts = folder.path().join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(&sinks);
    let mut worker = command(valgrind, &database, folder.path())
        .arg("run")
        .spawn()
        .expect("valgrind is installed: run `make test-servers`");
    until_settled(&mut connection, &mut worker, folder.path()).await;
    terminate(&mut worker).await;

    let delivered = std::fs::read_to_string(folder.path().join("events.ndjson")).unwrap();
    assert_eq!(delivered.lines().count(), 100_000);
    let each = total(&counts) / EVENTS as f64;
    let (was, growth) = (committed(), each / committed() - 1.0);
    let percent = growth * 100.0;
    eprintln!("{each:.0} instructions an event; committed: {was:.0} ({percent:+.1} %)");
    assert!(
        growth < TOLERANCE,
        "an event takes {each:.0} instructions and took {was:.0}. If that is worth it, write the new \
         figure into tests/tests/instructions/instructions_per_event.txt and say why"
    );
}

/// Builds what operators run, with the one kind of sink that is needed.
fn build() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    // <target>/<profile>/deps/<this test>
    let target = this.ancestors().nth(3).unwrap();
    let options = "build --quiet --locked --release -p outbox-runtime --bin sinks \
                   --no-default-features --features file";
    let mut cargo = std::process::Command::new(env!("CARGO"));
    // A folder of its own: other features would replace the binary that somebody else has built.
    let target = target.join("instructions");
    let status = cargo
        .args(options.split_whitespace())
        .arg("--target-dir")
        .arg(&target)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "the binary `sinks` can't be built");
    target.join("release").join("sinks")
}

fn command(mut command: Command, database: &Database, folder: &Path) -> Command {
    command
        .current_dir(folder)
        .env_remove("SINKS_CONFIG")
        .env("DATABASE_URL", database.url())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Ten events a transaction would make no difference to the worker, and filling slow.
async fn fill(connection: &mut PgConnection) {
    let sql = format!(
        "insert into outbox (topic, payload)
         select 'node.connected', jsonb_build_object(
             'id', 'evt_' || lpad(n::text, 26, '0'), 'type', 'node.connected',
             'tenantId', 'ten_1', 'subject', 'node/' || n % 1000,
             'time', '2026-09-24T10:15:02.114Z',
             'data', jsonb_build_object('n', n, 'pad', repeat('x', 100))
         ) from generate_series(1, {EVENTS}) as n"
    );
    connection.execute(AssertSqlSafe(sql)).await.unwrap();
    connection.execute("vacuum analyze outbox").await.unwrap();
}

async fn until_settled(connection: &mut PgConnection, worker: &mut Child, folder: &Path) {
    let sql = "select exists (
                   select from outbox_cursors as c
                   where (c.txid, c.seq) >= (
                       select txid, seq from outbox as o order by o.txid desc, o.seq desc limit 1
                   )
               )";
    let deadline = Instant::now() + PATIENCE;
    loop {
        let settled: bool = sqlx::query_scalar(sql)
            .fetch_one(&mut *connection)
            .await
            .unwrap();
        if settled {
            return;
        }
        let ended = worker.try_wait().unwrap();
        assert!(ended.is_none(), "the worker has ended: {ended:?}");
        assert!(
            Instant::now() < deadline,
            "not settled in {PATIENCE:?}: {folder:?}"
        );
        sleep(Duration::from_millis(200)).await;
    }
}

async fn terminate(worker: &mut Child) {
    let pid = worker.id().and_then(|id| i32::try_from(id).ok());
    kill_process(pid.and_then(Pid::from_raw).unwrap(), Signal::TERM).unwrap();
    let ended = timeout(PATIENCE, worker.wait()).await.expect("it stops");
    assert!(ended.unwrap().success());
}

/// The instructions that callgrind has counted in all.
fn total(counts: &Path) -> f64 {
    let text = std::fs::read_to_string(counts).expect("callgrind has written what it counted");
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.and_then(|total| total.trim().parse().ok());
    total.expect("callgrind writes a line of totals")
}
