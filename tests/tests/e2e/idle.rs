//! An idle outbox costs next to nothing, however many sinks there are.

use std::fmt::Write;
use std::time::Duration;

use sqlx::Connection;
use tokio::time::{Instant, sleep};

use super::fixture::{Scene, publish};

const SINKS: usize = 32;
const WATCHED: Duration = Duration::from_secs(12);

/// Processor time of a process so far, in ticks of 10 ms.
fn ticks(pid: rustix::process::Pid) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    // "pid (name) state …", where utime and stime are the 14th and 15th of all.
    let fields: Vec<_> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Transactions in this database so far, among them this look.
async fn transactions(scene: &Scene) -> i64 {
    let mut connection = scene.connect().await;
    let sql = "select xact_commit + xact_rollback from pg_stat_database
               where datname = current_database()";
    let count = sqlx::query_scalar(sql)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    count
}

#[tokio::test]
async fn many_sinks_on_an_idle_outbox_use_little_of_a_processor_and_of_the_database() {
    // B21. A guard against a loop that spins, not a benchmark.
    let scene = Scene::new().await;
    let mut config =
        "[database]\nurl = \"${DATABASE_URL}\"\n[http]\nlisten = \"127.0.0.1:0\"\n".to_owned();
    for sink in 1..=SINKS {
        write!(config, "[sinks.s{sink}.file]\npath = \"{sink}.ndjson\"\n").unwrap();
    }
    scene.write("sinks.toml", &config);
    let mut worker = scene.run("worker");
    publish(scene.database(), 10).await;
    for sink in 1..=SINKS {
        scene.up_to_date(&format!("s{sink}")).await;
    }
    // What the outbox costs right after an event is not idling.
    sleep(Duration::from_secs(2)).await;

    let (ticks_before, before) = (ticks(worker.pid()), transactions(&scene).await);
    let since = Instant::now();
    sleep(WATCHED).await;
    let used = ticks(worker.pid()) - ticks_before;
    let seconds = since.elapsed().as_secs_f64();
    // What a session has done is counted when it ends, at the latest.
    worker.stop().await;
    scene.sessions_ended().await;
    let done = transactions(&scene).await - before;

    let share = used as f64 / 100.0 / seconds;
    assert!(share < 0.1, "{share:.3} of a processor");
    let rate = done as f64 / seconds;
    // Four looks at the head each second, all leases renewed together every ten, the census; and
    // what is counted of the start and the stop: a release for each sink, and what each new
    // session is asked.
    assert!(rate < 40.0, "{rate:.1} transactions a second");
}
