use std::time::Duration;

use outbox_tests::servers::{Database, Mode, Postgres, PostgresVersion, Proxy, Shutdown, shared};
use sqlx::{Connection, PgConnection};
use tokio::time::timeout;

async fn insert(database: &Database, value: i32) {
    let mut connection = database.connect().await;
    sqlx::query("create table if not exists kept (n int)")
        .execute(&mut connection)
        .await
        .unwrap();
    sqlx::query("insert into kept values ($1)")
        .bind(value)
        .execute(&mut connection)
        .await
        .unwrap();
}

async fn kept(database: &Database) -> Vec<i32> {
    let mut connection = database.connect().await;
    sqlx::query_scalar("select n from kept order by n")
        .fetch_all(&mut connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn both_versions_answer_and_their_databases_are_apart() {
    for (version, major) in [(PostgresVersion::Oldest, 15), (PostgresVersion::Newest, 18)] {
        let postgres = shared::postgres(version).await;
        let (one, other) = (postgres.database().await, postgres.database().await);
        let number: i32 = sqlx::query_scalar("select current_setting('server_version_num')::int")
            .fetch_one(&mut one.connect().await)
            .await
            .unwrap();
        assert_eq!(number / 10_000, major);
        insert(&one, 1).await;
        insert(&other, 2).await;
        assert_eq!((kept(&one).await, kept(&other).await), (vec![1], vec![2]));
    }
}

#[tokio::test]
async fn commits_survive_every_way_to_end() {
    for version in PostgresVersion::ALL {
        let mut postgres = Postgres::options(version)
            .set("work_mem", "7MB")
            .start()
            .await;
        let (url, database) = (postgres.url(), postgres.database().await);
        insert(&database, 1).await;
        let open = database.connect().await;
        postgres.kill().await;
        assert!(
            PgConnection::connect(&url).await.is_err(),
            "a killed server does not listen"
        );
        drop(open);
        postgres.start_again().await;
        insert(&database, 2).await;
        postgres.stop(Shutdown::Immediate).await;
        postgres.start_again().await;
        insert(&database, 3).await;
        postgres.stop(Shutdown::Fast).await;
        postgres.start_again().await;
        assert_eq!(
            (kept(&database).await, postgres.url()),
            (vec![1, 2, 3], url)
        );
        let work_mem: String = sqlx::query_scalar("show work_mem")
            .fetch_one(&mut database.connect().await)
            .await
            .unwrap();
        assert_eq!(work_mem, "7MB");
    }
}

#[tokio::test]
async fn a_frozen_server_hangs_and_a_frozen_backend_hangs_alone() {
    let postgres = Postgres::oldest().await;
    let database = postgres.database().await;
    let (mut one, mut other) = (database.connect().await, database.connect().await);
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()")
        .fetch_one(&mut one)
        .await
        .unwrap();
    let patience = Duration::from_millis(300);

    postgres.pause_backend(pid);
    assert!(
        timeout(patience, one.ping()).await.is_err(),
        "a frozen backend does not answer"
    );
    other.ping().await.unwrap();
    postgres.resume_backend(pid);

    postgres.pause();
    assert!(
        timeout(patience, other.ping()).await.is_err(),
        "a frozen server does not answer"
    );
    postgres.resume();
    timeout(Duration::from_secs(5), database.connect())
        .await
        .unwrap()
        .ping()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_prepared_transaction_and_a_password_are_possible() {
    let postgres = shared::postgres(PostgresVersion::Newest).await;
    let database = postgres.database().await;
    insert(&database, 1).await;
    let mut connection = database.connect().await;
    for statement in [
        "begin",
        "insert into kept values (2)",
        "prepare transaction 'held'",
        "rollback prepared 'held'",
        "create role with_password login password 'right'",
    ] {
        sqlx::query(statement)
            .execute(&mut connection)
            .await
            .unwrap();
    }
    let with = |password: &str| {
        database
            .url()
            .replace("postgres@", &format!("with_password:{password}@"))
    };
    assert!(PgConnection::connect(&with("right")).await.is_ok());
    assert!(PgConnection::connect(&with("wrong")).await.is_err());
}

#[tokio::test]
async fn a_proxy_stands_in_front_of_it() {
    let postgres = shared::postgres(PostgresVersion::Oldest).await;
    let (proxy, database) = (
        Proxy::start(postgres.addr()).await,
        postgres.database().await,
    );
    let url = database.url_via(proxy.addr());
    let mut connection = PgConnection::connect(&url).await.unwrap();
    connection.ping().await.unwrap();
    proxy.set(Mode::Refuse);
    assert!(connection.ping().await.is_err());
    assert!(PgConnection::connect(&url).await.is_err());
}
