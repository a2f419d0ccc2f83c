//! Bad input to the real binary: a sentence that says what to do, a documented exit status, and no
//! password anywhere.

use outbox_tests::servers::{PostgresVersion, free_port, shared};
use sqlx::Executor;

use super::fixture::Scene;

/// Commands that read the whole configuration.
const ALL: [&[&str]; 2] = [&["run"], &["check"]];
/// Commands that connect to the database.
const CONNECTING: [&[&str]; 5] = [
    &["run"],
    &["check", "--online"],
    &["migrate"],
    &["publish"],
    &["status"],
];

#[tokio::test]
async fn a_wrong_file_is_refused_with_each_place_and_what_would_be_right() {
    let scene = Scene::empty().await;
    scene.write(
        "sinks.toml",
        "[database]\n\
         url = \"${NOT_SET}\"\n\
         statement_timout = \"5s\"\n\
         [sinks.a]\n\
         delivery_timeout = 5\n\
         batch = { max_event = 10 }\n\
         [sinks.a.file]\n\
         path = \"a.ndjson\"\n\
         batch_sise = 5\n\
         [sinks.b.kafka]\n\
         brokers = \"one:9092\"\n\
         sasl = { mechanism = \"PLAIN\", username = \"u\", password_file = \"not-there\" }\n\
         [sinks.c.kafak]\n",
    );
    for command in ALL {
        let said = scene.sinks(command).await.failed(2, &[]);
        for expected in [
            "sinks.toml:2:7: database.url: the environment variable NOT_SET is not set",
            "sinks.toml:3:1: database.statement_timout: unknown key; did you mean `statement_timeout`?",
            "sinks.toml:5:20: sinks.a.delivery_timeout: ",
            "sinks.toml:6:11: sinks.a.batch.max_event: unknown key; did you mean `max_events`?",
            "sinks.toml:9:1: sinks.a.file.batch_sise: unknown key",
            "sinks.toml:11:11: sinks.b.kafka.brokers: ",
            "sinks.toml:13:10: sinks.c.kafak: unknown key; did you mean `kafka`?",
        ] {
            assert!(said.contains(expected), "{expected} is missing in:\n{said}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_no_toml_or_not_there_is_named() {
    let scene = Scene::empty().await;
    scene.write(
        "sinks.toml",
        "[database]\nurl = \"postgres://u:hunter2@h/d\" oops\n",
    );
    for command in ALL {
        scene.sinks(command).await.failed(2, &["sinks.toml:2:"]);
        let other = [command, &["--config", "other.toml"]].concat();
        scene
            .sinks(&other)
            .await
            .failed(2, &["there is no other.toml", "sinks init"]);
    }
    scene.sinks(&["rum"]).await.failed(2, &["run"]);
}

#[tokio::test]
async fn a_secret_from_a_file_that_is_not_there_is_named() {
    let scene = Scene::empty().await;
    scene.write(
        "sinks.toml",
        "[database]\nurl_file = \"not-there\"\n[sinks.a.stdout]\n",
    );
    for command in CONNECTING {
        let place = ["sinks.toml:2:1: database.url_file: ", "not-there"];
        scene.sinks(command).await.failed(2, &place);
    }
}

#[tokio::test]
async fn an_unreachable_database_is_told_with_its_place() {
    // H38, at the most talkative level of logs.
    let scene = Scene::empty().await;
    let port = free_port();
    scene.write(
        "sinks.toml",
        &format!(
            "[database]\nurl = \"postgres://u:hunter2@127.0.0.1:{port}/shop\"\n\
             [http]\nlisten = \"127.0.0.1:0\"\n\
             [log]\nfilter = \"trace\"\n[sinks.a.stdout]\n"
        ),
    );
    let place = format!("127.0.0.1:{port}, database `shop`");
    for command in CONNECTING {
        scene.sinks(command).await.failed(3, &[&place]);
    }
}

#[tokio::test]
async fn a_wrong_password_or_a_wrong_name_is_told_with_what_to_check() {
    let scene = Scene::empty().await;
    let addr = shared::postgres(PostgresVersion::Oldest).await.addr();
    let mut connection = scene.connect().await;
    connection
        .execute("create role with_password login password 'hunter2-the-right-one'")
        .await
        .unwrap();
    let name = scene.database().name().to_owned();
    let configure = |user: &str, database: &str| {
        let url = format!("postgres://{user}@{addr}/{database}");
        let text = format!(
            "[database]\nurl = \"{url}\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
             [log]\nfilter = \"trace\"\n[sinks.a.stdout]\n"
        );
        scene.write("sinks.toml", &text);
    };
    for command in CONNECTING {
        configure("with_password:hunter2-the-wrong-one", &name);
        scene
            .sinks(command)
            .await
            .failed(3, &["check the user, the password"]);
        configure("postgres:hunter2", "not_there");
        scene
            .sinks(command)
            .await
            .failed(2, &["not_there", "check the database's name"]);
    }
}

#[tokio::test]
async fn tables_that_are_missing_or_too_new_stop_every_command_that_needs_them() {
    let scene = Scene::empty().await;
    scene.configure("[sinks.a.file]\npath = \"a.ndjson\"\n");
    for command in [&["run"][..], &["check", "--online"], &["status"]] {
        scene
            .sinks(command)
            .await
            .failed(4, &["there is no outbox in schema public", "sinks migrate"]);
    }
    let event = "{\"type\":\"a.b\",\"tenantId\":\"t\",\"subject\":\"s\"}\n";
    scene
        .sinks_with(&["publish"], event)
        .await
        .failed(4, &["sinks migrate", "published 0"]);

    scene.sinks(&["migrate"]).await.succeeded();
    let mut connection = scene.connect().await;
    let sql =
        "insert into outbox_migrations (version, description, success, checksum, execution_time)
               values (999, 'from the future', true, '', 0)";
    connection.execute(sql).await.unwrap();
    for command in [
        &["run"][..],
        &["check", "--online"],
        &["status"],
        &["migrate"],
    ] {
        let expected = [
            "is at migration 999 and this program knows 1",
            "upgrade this program",
        ];
        scene.sinks(command).await.failed(4, &expected);
    }
}

#[tokio::test]
async fn processes_that_migrate_at_the_same_time_both_succeed() {
    let scene = Scene::empty().await;
    scene.configure("[sinks.a.file]\npath = \"a.ndjson\"\n");
    let migrate = async || scene.sinks(&["migrate"]).await.succeeded();
    let (one, two, three) = tokio::join!(migrate(), migrate(), migrate());
    let created = [&one, &two, &three]
        .iter()
        .filter(|said| said.contains("created"))
        .count();
    assert_eq!(created, 1, "{one}{two}{three}");
    scene.sinks(&["check", "--online"]).await.succeeded();
}
