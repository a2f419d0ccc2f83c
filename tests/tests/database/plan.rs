//! The plan of every read: one index condition with all three bounds, no filter
//! on the scan, no sort. It is asked of the session that really reads.

use outbox::{Filter, Position};
use outbox_tests::servers::{Postgres, PostgresVersion};
use sqlx::AssertSqlSafe;

use crate::fixture::{filter, request, settings};

#[tokio::test]
async fn every_read_walks_one_index_with_one_condition() {
    for version in PostgresVersion::ALL {
        // What was planned is in the server's log, so the server is this test's.
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
        let settings = settings(&server.url());
        outbox::migrate(&settings).await.unwrap();
        let mut owner = server.connect().await;
        let schema = settings.schema.quoted();
        let fill = format!(
            "insert into {schema}.outbox (topic, payload)
             select 'node.up', jsonb_build_object('id', n, 'type', 'node.up', 'tenantId', 't' || n % 9)
             from generate_series(1, 20000) as n; analyze {schema}.outbox"
        );
        sqlx::raw_sql(AssertSqlSafe(fill))
            .execute(&mut owner)
            .await
            .unwrap();

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
        let sql = "select pg_read_file(current_setting('log_directory') || '/plans.csv')";
        let (log,): (String,) = sqlx::query_as(sql).fetch_one(&mut owner).await.unwrap();
        judge(&log);
    }
}

/// Judges every plan in the server's log.
fn judge(log: &str) {
    let plans: Vec<_> = log
        .split("Query Text: ")
        .filter(|plan| plan.contains("order by txid, seq limit $4"))
        .collect();
    assert!(plans.len() >= 25, "{} plans", plans.len());
    for plan in plans {
        let plan = plan.split("\",").next().unwrap();
        let conditions: Vec<_> = plan
            .lines()
            .filter(|line| line.contains("Index Cond:"))
            .collect();
        let [condition] = conditions.as_slice() else {
            panic!("{plan}")
        };
        for bound in ["ROW(txid, seq) > ROW(", "txid >= ", "txid < "] {
            assert!(condition.contains(bound), "{plan}");
        }
        assert!(plan.contains("using outbox_pkey on outbox"), "{plan}");
        for bad in ["Filter:", "Sort", "Seq Scan", "Bitmap"] {
            assert!(!plan.contains(bad), "{bad} in {plan}");
        }
    }
    // The head looks at one row, however many there are.
    let heads: Vec<_> = log
        .split("Query Text: ")
        .filter(|plan| plan.contains("order by txid desc, seq desc limit 1"))
        .collect();
    assert!(
        heads
            .iter()
            .all(|plan| plan.contains("Index Only Scan Backward using outbox_pkey"))
    );
    assert!(!heads.is_empty());
}
