//! Sessions that change under a worker (B6): a transaction pooler is refused, since it drops what
//! deadlines and fencing rest on, and connections that are cut between statements never make two
//! owners of one sink.

use std::time::Duration;

use outbox_tests::servers::{Mode, PgBouncer, PostgresVersion, Proxy, shared};
use sqlx::{AssertSqlSafe, Executor, Row};
use tokio::time::sleep;

use super::fixture::{
    Load, Scene, assert_complete_in_order, configure_via, eventually, in_file, published, start,
};

/// A pooler that was told to pass over the settings that it does not know.
const DROPS: &str = "ignore_startup_parameters = extra_float_digits, options";

async fn refused(scene: &Scene, pooler: &PgBouncer) {
    let url = scene.database().url_via(pooler.addr());
    let text = format!(
        "[database]\nurl = \"{url}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[sinks.x.file]\npath = \"x.ndjson\"\n"
    );
    scene.write("pooled.toml", &text);
    for command in [&["run"][..], &["check", "--online"]] {
        let args = [command, &["--config", "pooled.toml"]].concat();
        let expected = ["pooler", "connect to Postgres itself"];
        let said = scene.sinks(&args).await.failed(2, &expected);
        assert!(!said.contains("started"), "{said}");
    }
}

#[tokio::test]
async fn a_transaction_pooler_is_refused_whatever_it_passes_on() {
    let scene = Scene::new().await;
    let postgres = shared::postgres(PostgresVersion::Oldest).await.addr();
    // As it comes, it does not take the settings; told to, it drops them.
    refused(&scene, &PgBouncer::start(postgres, "").await).await;
    let pooler = PgBouncer::start(postgres, DROPS).await;
    refused(&scene, &pooler).await;

    // The server may happen to have the very timeout that the worker asks for.
    let mut connection = scene.connect().await;
    let name = scene.database().name();
    let sql = format!("alter database {name} set statement_timeout = '30s'");
    connection.execute(AssertSqlSafe(sql)).await.unwrap();
    let pooler = PgBouncer::start(postgres, DROPS).await;
    refused(&scene, &pooler).await;
}

/// Keeps every version of a lease and every token that a cursor was written under.
async fn record(scene: &Scene) {
    let mut connection = scene.connect().await;
    let sql = "create table lease_log (n bigserial, at timestamptz default clock_timestamp(),
            holder text, token bigint, expires_at timestamptz);
        create function log_lease() returns trigger language plpgsql as $$ begin
            insert into lease_log (holder, token, expires_at)
            values (new.holder, new.token, new.expires_at);
            return null;
        end $$;
        create trigger log_lease after insert or update on leases for each row
            when (new.name = 'singleton:outbox-dispatch:x') execute function log_lease();
        create table token_log (n bigserial, token bigint);
        create function log_token() returns trigger language plpgsql as $$ begin
            insert into token_log (token) values (new.token);
            return null;
        end $$;
        create trigger log_token after insert or update on outbox_cursors for each row
            execute function log_token()";
    connection.execute(sql).await.unwrap();
}

/// The changes of owner, and how many of them took a lease that was still good.
async fn changes(scene: &Scene) -> (i64, i64) {
    let mut connection = scene.connect().await;
    let sql = "select count(*), count(*) filter (where token <= old_token
                   or old_holder is not null and at < old_expires_at)
               from (
                   select at, holder, token, lag(holder) over (order by n) as old_holder,
                       lag(expires_at) over (order by n) as old_expires_at,
                       lag(token) over (order by n) as old_token
                   from lease_log
               ) as log
               where holder is not null and holder is distinct from old_holder";
    let row = sqlx::query(sql).fetch_one(&mut connection).await.unwrap();
    (row.get(0), row.get(1))
}

async fn tokens(scene: &Scene) -> Vec<i64> {
    let mut connection = scene.connect().await;
    let sql = "select token from token_log order by n";
    sqlx::query_scalar(sql)
        .fetch_all(&mut connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn connections_that_are_cut_between_statements_never_make_two_owners() {
    let scene = Scene::new().await;
    record(&scene).await;
    let postgres = shared::postgres(PostgresVersion::Oldest).await.addr();
    let networks = [Proxy::start(postgres).await, Proxy::start(postgres).await];
    let sinks = "[sinks.x.file]\npath = \"x.ndjson\"\n";
    scene.configure(sinks);
    let mut workers = Vec::new();
    for (name, network) in ["a", "b"].into_iter().zip(&networks) {
        let url = scene.database().url_via(network.addr());
        configure_via(&scene, name, &url, "2s", sinks);
        workers.push(start(&scene, name));
    }
    let load = Load {
        publishers: 2,
        transactions: 400,
        long: 0,
    };
    let load = load.run(scene.database().clone());
    let cuts = async {
        for _ in 0..5 {
            // The owner hears nothing for longer than its lease, and the other one is cut again
            // and again.
            let owner = async || scene.holder("x").await;
            let owner = eventually("somebody holds the lease", owner).await;
            let [a, b] = &networks;
            let (hung, cut) = if owner.starts_with("a-") {
                (a, b)
            } else {
                (b, a)
            };
            hung.set(Mode::Hang);
            for _ in 0..20 {
                sleep(Duration::from_millis(150)).await;
                cut.cut();
            }
            hung.set(Mode::Pass);
        }
    };
    tokio::join!(load, cuts);
    scene.up_to_date("x").await;
    for worker in &mut workers {
        worker.stop().await;
    }
    let (changes, stolen) = changes(&scene).await;
    assert!(changes >= 4, "{changes} changes of owner");
    assert_eq!(stolen, 0, "of {changes} changes");
    let tokens = tokens(&scene).await;
    assert!(tokens.is_sorted(), "{tokens:?}");
    let published = published(scene.database()).await;
    assert_complete_in_order("file", &in_file(&scene.path("x.ndjson")), &published);
}
