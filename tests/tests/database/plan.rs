//! The plan of every read: one index condition with all three bounds, no filter
//! on the scan, no sort. It is asked of the session that really reads. What a claim
//! and retention do with the outbox is as cheap, however many rows there are.

use std::time::Duration;

use outbox::{Filter, Position, TailRequest, sink_lease};
use outbox_tests::servers::{Database, Postgres, PostgresVersion};
use sqlx::AssertSqlSafe;

use crate::fixture::{filter, request, settings};

/// What was planned is in the server's log, so the server is the test's own.
async fn explaining(version: PostgresVersion) -> (Postgres, Database) {
    let postgres = Postgres::options(version)
        .set("session_preload_libraries", "auto_explain")
        .set("auto_explain.log_min_duration", "0")
        .set("auto_explain.log_analyze", "on")
        .set("log_destination", "csvlog")
        .set("logging_collector", "on")
        .set("log_filename", "plans")
        .start()
        .await;
    let server = postgres.database().await;
    outbox::migrate(&settings(&server.url())).await.unwrap();
    (postgres, server)
}

/// Runs a statement with the quoted schema in the places of `{s}`.
async fn run(server: &Database, text: &str) {
    let settings = settings(&server.url());
    let text = text.replace("{s}", settings.schema.quoted());
    sqlx::raw_sql(AssertSqlSafe(text))
        .execute(&mut server.connect().await)
        .await
        .unwrap();
}

const FILL: &str = "insert into {s}.outbox (topic, payload, created_at)
    select 'node.up', jsonb_build_object('id', n, 'type', 'node.up', 'tenantId', 't' || n % 9),
        now() - interval '2 h'
    from generate_series(1, 20000) as n";

async fn log(server: &Database) -> String {
    let sql = "select pg_read_file(current_setting('log_directory') || '/plans.csv')";
    let (log,): (String,) = sqlx::query_as(sql)
        .fetch_one(&mut server.connect().await)
        .await
        .unwrap();
    log
}

/// The logged plans of the statements that contain a text.
fn plans<'l>(log: &'l str, text: &str) -> Vec<&'l str> {
    let plans = log.split("Query Text: ").skip(1);
    let plans = plans.map(|plan| plan.split("\",").next().unwrap_or_default());
    plans.filter(|plan| plan.contains(text)).collect()
}

#[tokio::test]
async fn every_read_walks_one_index_with_one_condition() {
    for version in PostgresVersion::ALL {
        let (_postgres, server) = explaining(version).await;
        run(&server, FILL).await;
        run(&server, "analyze {s}.outbox").await;
        let settings = settings(&server.url());
        let database = outbox::Database::connect(&settings).await.unwrap();
        let head = database.head().await.unwrap();
        let filters = [
            Filter::default(),
            filter(&["order.*"], &[]),
            filter(&["node.*"], &["t1"]),
        ];
        for filter in &filters {
            let mut reader = database.reader(filter).await.unwrap();
            let mut after = Position::BEGINNING;
            // Often enough that a generic plan gets its turn.
            for _ in 0..12 {
                after = reader.read(request(after, head)).await.unwrap().end;
            }
        }
        let mut reader = database.reader(&Filter::default()).await.unwrap();
        let mut after = Position::BEGINNING;
        // With rows before the head, and without.
        for _ in 0..24 {
            let tail = TailRequest {
                after,
                max_events: 2_000,
                max_bytes: 1 << 20,
            };
            after = reader.read_tail(tail).await.unwrap().1.end;
        }
        judge(&log(&server).await);
    }
}

/// Also where the statistics know nothing of the rows.
#[tokio::test]
async fn retention_and_a_claim_look_at_no_more_rows_than_they_need() {
    for (version, statistics) in PostgresVersion::ALL
        .into_iter()
        .flat_map(|version| [(version, "analyze {s}.outbox"), (version, "select")])
    {
        let (_postgres, server) = explaining(version).await;
        run(&server, "analyze {s}.outbox").await;
        run(&server, FILL).await;
        run(&server, statistics).await;
        let settings = settings(&server.url());
        let database = outbox::Database::connect(&settings).await.unwrap();
        let end = database.head().await.unwrap().end();
        let ttl = Duration::from_secs(60);
        let lease = database.acquire_lease(&sink_lease("a"), "me", ttl).await;
        let lease = lease.unwrap().unwrap();
        let mut after = Position::BEGINNING;
        // Often enough that a generic plan gets its turn.
        for _ in 0..12 {
            database.claim("a", &lease, end).await.unwrap().unwrap();
            let pruned = database.prune(ttl, after).await.unwrap();
            after = pruned.next.unwrap_or(after);
        }
        let log = log(&server).await;
        for (text, scans) in [
            (
                "with passed as",
                ["Index Only Scan", "Index Scan", "Tid Scan"].as_slice(),
            ),
            ("on conflict (stream, consumer)", &["Index Only Scan"]),
        ] {
            let plans = plans(&log, text);
            assert!(plans.len() >= 12, "{} plans", plans.len());
            for plan in plans {
                judge_scans(plan, scans);
            }
        }
    }
}

/// Judges how a plan looks at the outbox: in these ways, by an index's condition or a
/// row's place alone, and never at more than the rows of one step.
fn judge_scans(plan: &str, scans: &[&str]) {
    let nodes = plan.split("->").filter(|node| {
        let what = node.split("(cost").next().unwrap_or_default();
        what.contains("Scan") && what.contains(" on outbox ")
    });
    let nodes: Vec<_> = nodes.collect();
    let found: Vec<_> = nodes
        .iter()
        .map(|node| {
            node.split_inclusive("Scan")
                .next()
                .unwrap_or_default()
                .trim()
        })
        .collect();
    assert_eq!(found, scans, "{plan}");
    for node in nodes {
        let line = node.lines().next().unwrap_or_default();
        let rows = line.rsplit("rows=").next().unwrap_or_default();
        let rows: String = rows.chars().take_while(char::is_ascii_digit).collect();
        assert!(rows.parse::<u32>().unwrap() <= 5_000, "{plan}");
        assert!(!node.contains("Filter:"), "{plan}");
    }
}

/// Judges every plan in the server's log.
fn judge(log: &str) {
    let walks = plans(log, "order by txid, seq limit $4");
    let walks: Vec<_> = walks
        .into_iter()
        .filter(|plan| !plan.contains("with passed as"))
        .collect();
    assert!(walks.len() >= 25, "{} plans", walks.len());
    for plan in walks {
        let [condition] = conditions(plan)[..] else {
            panic!("{plan}")
        };
        judge_walk(plan, condition);
    }
    // A look at the head that reads does so beside looking at the newest row, and in
    // one process: the order in which its parts come is the order of the rows.
    let tails = plans(log, "order by txid, seq limit $3");
    assert!(tails.len() >= 24, "{} plans", tails.len());
    for plan in tails {
        let mut of_outbox = conditions(plan);
        // That is the last command's.
        of_outbox.retain(|condition| !condition.contains("id IS NOT NULL"));
        let [newest, rows] = of_outbox[..] else {
            panic!("{plan}")
        };
        assert!(newest.contains("(txid < "), "{plan}");
        judge_walk(plan, rows);
        assert!(!plan.contains("Gather"), "{plan}");
    }
    // The head looks at one row, however many there are.
    let heads = plans(log, "order by txid desc, seq desc limit 1");
    for plan in &heads {
        let scan = "Index Only Scan Backward using outbox_pkey";
        assert!(plan.contains(scan), "{plan}");
    }
    assert!(!heads.is_empty());
}

fn conditions(plan: &str) -> Vec<&str> {
    let lines = plan.lines();
    lines.filter(|line| line.contains("Index Cond:")).collect()
}

fn judge_walk(plan: &str, condition: &str) {
    for bound in ["ROW(txid, seq) > ROW(", "txid >= ", "txid < "] {
        assert!(condition.contains(bound), "{plan}");
    }
    assert!(plan.contains("using outbox_pkey on outbox"), "{plan}");
    for bad in ["Filter:", "Sort", "Seq Scan", "Bitmap"] {
        assert!(!plan.contains(bad), "{bad} in {plan}");
    }
}
