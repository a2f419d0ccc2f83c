//! Connections: every use ends in time, and none is handed on half used.

use std::time::Duration;

use outbox::{
    ConnectSettings, Database, DatabaseErrorKind, Filter, Owned, Position, ReplayOutcome,
    Settlement, Then,
};
use outbox_tests::servers::{Mode, Postgres, PostgresVersion, Proxy, Shutdown, shared};
use tokio::time::{Instant, timeout};

use crate::fixture::{Outbox, on_each_postgres, request, settings};

/// B1, B4.
#[tokio::test]
async fn a_frozen_backend_costs_one_deadline_and_one_connection() {
    let postgres = Postgres::oldest().await;
    let server = postgres.database().await;
    let settings = settings(&server.url());
    outbox::migrate(&settings).await.unwrap();
    let settings = ConnectSettings {
        statement_timeout: Duration::from_millis(500),
        // The name is this connection's alone: the one that migrated may linger.
        application_name: "frozen".to_owned(),
        max_connections: 1,
        ..settings
    };
    let database = Database::connect(&settings).await.unwrap();
    let mut admin = server.connect().await;
    let sql = "select pid from pg_stat_activity where application_name = 'frozen'";
    let (pid,): (i32,) = sqlx::query_as(sql).fetch_one(&mut admin).await.unwrap();
    postgres.pause_backend(pid);
    let start = Instant::now();
    let error = database.head().await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Unreachable, "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    database.head().await.expect("another connection serves");
    postgres.resume_backend(pid);
}

#[tokio::test]
async fn a_restarted_server_costs_one_failure_however_many_connections_were_idle() {
    let mut postgres = Postgres::newest().await;
    let server = postgres.database().await;
    let settings = settings(&server.url());
    outbox::migrate(&settings).await.unwrap();
    let database = Database::connect(&settings).await.unwrap();
    let (a, b, c) = tokio::join!(database.head(), database.head(), database.head());
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    postgres.stop(Shutdown::Fast).await;
    postgres.start_again().await;
    let error = database.head().await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Unreachable, "{error}");
    database
        .head()
        .await
        .expect("no connection of the past is left");

    postgres.stop(Shutdown::Fast).await;
    for _ in 0..3 {
        let error = database.head().await.unwrap_err();
        assert_eq!(error.kind(), DatabaseErrorKind::Unreachable, "{error}");
    }
    postgres.start_again().await;
    database.head().await.unwrap();
}

#[tokio::test]
async fn every_outage_is_counted_as_a_loss() {
    let mut postgres = Postgres::newest().await;
    let server = postgres.database().await;
    let settings = settings(&server.url());
    outbox::migrate(&settings).await.unwrap();
    let database = Database::connect(&settings).await.unwrap();
    database.head().await.unwrap();
    assert_eq!(database.losses(), 0);
    postgres.stop(Shutdown::Immediate).await;
    postgres.start_again().await;
    database.head().await.unwrap_err();
    let broken = database.losses();
    assert!(broken > 0, "a connection that broke");
    database.head().await.unwrap();
    assert_eq!(database.losses(), broken);

    postgres.stop(Shutdown::Fast).await;
    database.head().await.unwrap_err();
    let broken = database.losses();
    database.head().await.unwrap_err();
    assert!(database.losses() > broken, "one that can't be opened");
}

/// B9.
#[tokio::test]
async fn a_use_that_is_cancelled_midway_leaves_nothing_for_the_next() {
    on_each_postgres(async |outbox| {
        outbox.publish_subjects(0..50).await;
        let target = shared::postgres(outbox.version).await.addr();
        let proxy = Proxy::start(target).await;
        let settings = ConnectSettings {
            max_connections: 1,
            application_name: "cancelled".to_owned(),
            ..settings(&outbox.server.url_via(proxy.addr()))
        };
        let database = Database::connect(&settings).await.unwrap();
        for round in 0..8u64 {
            proxy.set(Mode::Latency(Duration::from_millis(20)));
            let cancelled = timeout(Duration::from_millis(10 * round), async {
                let head = database.head().await.unwrap();
                let mut reader = database.reader(&Filter::default()).await.unwrap();
                reader
                    .read(request(Position::BEGINNING, head))
                    .await
                    .unwrap();
                database
                    .acquire_lease("x", "me", Duration::from_secs(1))
                    .await
                    .unwrap()
            })
            .await;
            proxy.set(Mode::Pass);
            drop(cancelled);
            let head = database.head().await.unwrap();
            let listed = database.lease_holders().await.unwrap();
            assert!(listed.len() <= 1 && head.horizon.0 > 2);
        }
        let mut admin = outbox.application().await;
        let sql = "select count(*) from pg_stat_activity
                   where datname = current_database() and application_name = 'cancelled'
                   and state like 'idle in transaction%'";
        let (dirty,): (i64,) = sqlx::query_as(sql).fetch_one(&mut admin).await.unwrap();
        assert_eq!(dirty, 0);
    })
    .await;
}

#[tokio::test]
async fn a_network_that_swallows_everything_is_noticed() {
    let outbox = Outbox::new(PostgresVersion::Newest).await;
    let proxy = Proxy::start(shared::postgres(outbox.version).await.addr()).await;
    let settings = ConnectSettings {
        statement_timeout: Duration::from_millis(300),
        connect_timeout: Duration::from_secs(1),
        ..settings(&outbox.server.url_via(proxy.addr()))
    };
    let database = Database::connect(&settings).await.unwrap();
    proxy.set(Mode::Hang);
    for _ in 0..2 {
        let start = Instant::now();
        let error = database.head().await.unwrap_err();
        assert_eq!(error.kind(), DatabaseErrorKind::Unreachable, "{error}");
        assert!(start.elapsed() < Duration::from_secs(4));
    }
    proxy.set(Mode::Pass);
    database.head().await.unwrap();
}

#[tokio::test]
async fn connections_are_bounded_and_waiting_for_one_has_an_end() {
    let outbox = Outbox::new(PostgresVersion::Oldest).await;
    let settings = ConnectSettings {
        max_connections: 3,
        application_name: "bounded".to_owned(),
        connect_timeout: Duration::from_secs(30),
        ..outbox.settings.clone()
    };
    let database = Database::connect(&settings).await.unwrap();
    let mut uses = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let database = database.clone();
        uses.spawn(async move { database.head().await.unwrap() });
    }
    while let Some(done) = uses.join_next().await {
        done.unwrap();
    }
    let mut admin = outbox.application().await;
    let sql = "select count(*) from pg_stat_activity
               where datname = current_database() and application_name = 'bounded'";
    let (count,): (i64,) = sqlx::query_as(sql).fetch_one(&mut admin).await.unwrap();
    assert!((1..=3).contains(&count), "{count}");
}

/// H38.
#[tokio::test]
async fn a_refused_password_is_in_no_error() {
    let outbox = Outbox::new(PostgresVersion::Newest).await;
    outbox
        .run("do $$ begin create role with_password login password 'right'; exception when duplicate_object then null; end $$")
        .await;
    let url = outbox
        .server
        .url()
        .replace("postgres@", "with_password:hush@");
    let settings = ConnectSettings {
        url: url.into(),
        ..outbox.settings.clone()
    };
    let error = Database::connect(&settings).await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Denied, "{error}");
    let shown = format!("{error} {error:?} {:?}", std::error::Error::source(&error));
    assert!(!shown.contains("hush"), "{shown}");
    assert!(error.to_string().contains(outbox.server.name()), "{error}");
}

#[tokio::test]
async fn a_missing_database_is_named() {
    let outbox = Outbox::new(PostgresVersion::Newest).await;
    let url = outbox.server.url().replace(outbox.server.name(), "nowhere");
    let settings = ConnectSettings {
        url: url.into(),
        ..outbox.settings.clone()
    };
    let error = Database::connect(&settings).await.unwrap_err();
    assert_eq!(error.kind(), DatabaseErrorKind::Misconfigured);
    assert!(error.to_string().contains("`nowhere`"), "{error}");
}

#[tokio::test]
async fn every_use_can_be_spawned() {
    fn spawnable(_: impl Send + 'static) {}
    let outbox = Outbox::new(PostgresVersion::Newest).await;
    let database = outbox.database.clone();
    spawnable(async move {
        let head = database.head().await.unwrap();
        let mut reader = database.reader(&Filter::default()).await.unwrap();
        reader
            .read(request(Position::BEGINNING, head))
            .await
            .unwrap();
        let lease = database
            .acquire_lease("x", "me", Duration::ZERO)
            .await
            .unwrap()
            .unwrap();
        database.claim("x", &lease, head.end()).await.unwrap();
        let settlement = Settlement {
            delivered: None,
            up_to: Some(head.end()),
            dead_letters: Vec::new(),
            then: Then::Go,
        };
        let settled = database.settle("x", &lease, &settlement).await;
        assert_eq!(settled.unwrap(), Owned::Yes);
        let replays = database.replays("x", 1).await.unwrap();
        let outcomes: Vec<_> = replays
            .iter()
            .map(|replay| (replay.id, ReplayOutcome::Delivered))
            .collect();
        let settled = database.settle_replays("x", &lease, &outcomes).await;
        assert_eq!(settled.unwrap(), Owned::Yes);
        database
            .census("me", &["x".to_owned()], Duration::ZERO)
            .await
            .unwrap();
        database
            .prune(Duration::ZERO, Position::BEGINNING)
            .await
            .unwrap();
        database.cursors().await.unwrap()
    });
    let mut application = outbox.application().await;
    let publisher = outbox.publisher();
    spawnable(async move {
        publisher
            .publish(&mut application, crate::fixture::event("s"))
            .await
    });
    let settings = outbox.settings.clone();
    spawnable(async move { outbox::migrate(&settings).await });
}
