//! Creating the tables: once, twice, at once, too old, too new.

use outbox::{MigrateError, Schema, SchemaState, migrate, schema_state};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::fixture::on_each_empty_database;

#[tokio::test]
async fn migrating_twice_changes_nothing() {
    on_each_empty_database(async |server, settings| {
        let mut connection = server.connect().await;
        assert_eq!(
            schema_state(&mut connection, &settings.schema)
                .await
                .unwrap(),
            SchemaState::Missing
        );
        assert_eq!(migrate(&settings).await.unwrap(), SchemaState::Missing);
        assert_eq!(
            schema_state(&mut connection, &settings.schema)
                .await
                .unwrap(),
            SchemaState::Current
        );
        assert_eq!(migrate(&settings).await.unwrap(), SchemaState::Current);
    })
    .await;
}

#[tokio::test]
async fn several_processes_may_migrate_at_once() {
    on_each_empty_database(async |_, settings| {
        let one = || Box::pin(async { migrate(&settings).await.unwrap() });
        let before = tokio::join!(one(), one(), one(), one());
        let before = [before.0, before.1, before.2, before.3];
        let missing = before
            .iter()
            .filter(|state| **state == SchemaState::Missing);
        assert_eq!(missing.count(), 1, "{before:?}");
    })
    .await;
}

#[tokio::test]
async fn two_schemas_of_one_database_are_apart() {
    on_each_empty_database(async |server, settings| {
        migrate(&settings).await.unwrap();
        let other = outbox::ConnectSettings {
            schema: Schema::default(),
            ..settings.clone()
        };
        assert_eq!(migrate(&other).await.unwrap(), SchemaState::Missing);
        let mut connection = server.connect().await;
        let event = outbox::NewEvent::new("a.b", "t", "s");
        outbox::publish(&mut connection, event).await.unwrap();
        let sql = AssertSqlSafe(format!(
            "select (select count(*) from {}.outbox), (select count(*) from public.outbox)",
            settings.schema.quoted()
        ));
        let counts: (i64, i64) = sqlx::query_as(sql)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(counts, (0, 1));
    })
    .await;
}

#[tokio::test]
async fn a_newer_outbox_is_refused_with_what_to_do() {
    on_each_empty_database(async |server, settings| {
        migrate(&settings).await.unwrap();
        let mut connection = server.connect().await;
        let table = format!("{}.outbox_migrations", settings.schema.quoted());
        sqlx::raw_sql(AssertSqlSafe(format!(
            "insert into {table} values (99, 'later', now(), true, '', 0)"
        )))
        .execute(&mut connection)
        .await
        .unwrap();
        let error = migrate(&settings).await.unwrap_err();
        assert!(
            matches!(error, MigrateError::Ahead { applied: 99, .. }),
            "{error:?}"
        );
        assert!(
            error.to_string().contains("upgrade this program"),
            "{error}"
        );
        let state = schema_state(&mut connection, &settings.schema)
            .await
            .unwrap();
        assert!(matches!(state, SchemaState::Ahead { applied: 99, .. }));
        sqlx::raw_sql(AssertSqlSafe(format!(
            "update {table} set version = version - 99"
        )))
        .execute(&mut connection)
        .await
        .unwrap();
        let state = schema_state(&mut connection, &settings.schema)
            .await
            .unwrap();
        assert!(
            matches!(state, SchemaState::Behind { applied: 0, .. }),
            "{state:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_migration_that_was_changed_is_refused() {
    on_each_empty_database(async |server, settings| {
        migrate(&settings).await.unwrap();
        let mut connection = server.connect().await;
        let table = format!("{}.outbox_migrations", settings.schema.quoted());
        sqlx::raw_sql(AssertSqlSafe(format!("update {table} set checksum = 'x'")))
            .execute(&mut connection)
            .await
            .unwrap();
        let error = migrate(&settings).await.unwrap_err();
        assert!(matches!(error, MigrateError::Changed(1)), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn an_applications_own_migrations_are_not_disturbed() {
    on_each_empty_database(async |server, settings| {
        let settings = outbox::ConnectSettings {
            schema: Schema::default(),
            ..settings
        };
        let own = |sql: &'static str| {
            let kind = MigrationType::Simple;
            Migration::new(1, "own".into(), kind, sql.into_sql_str(), false)
        };
        let application = Migrator::with_migrations(vec![own("create table orders (id int8)")]);
        let mut connection = server.connect().await;
        application.run(&mut connection).await.unwrap();
        migrate(&settings).await.unwrap();
        application.run(&mut connection).await.unwrap();
        let (count,): (i64,) = sqlx::query_as("select count(*) from _sqlx_migrations")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(count, 1);
    })
    .await;
}

#[tokio::test]
async fn a_role_without_the_right_to_create_schemas_migrates_into_its_own() {
    on_each_empty_database(async |server, settings| {
        let mut connection = server.connect().await;
        let owner = format!("owner_{}", server.name());
        sqlx::raw_sql(AssertSqlSafe(format!(
            "create role {owner} login; create schema {} authorization {owner}",
            settings.schema.quoted()
        )))
        .execute(&mut connection)
        .await
        .unwrap();
        let url = server.url().replace("postgres@", &format!("{owner}@"));
        let settings = outbox::ConnectSettings {
            url: url.into(),
            ..settings
        };
        assert_eq!(migrate(&settings).await.unwrap(), SchemaState::Missing);
    })
    .await;
}
