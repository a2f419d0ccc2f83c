//! The rules in Rust and in SQL are the same rules.

use outbox::{NewEvent, PublishError};
use outbox_tests::servers::PostgresVersion;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sqlx::postgres::PgDatabaseError;
use sqlx::{Connection, PgConnection};
use tokio::runtime::Runtime;

use crate::fixture::Outbox;

const CASES: u32 = 300;

/// Texts of all lengths around a limit, with characters of one to four bytes.
fn text(limit: usize) -> impl Strategy<Value = String> {
    // Mostly good ones: the first broken rule hides the others.
    let length = prop_oneof![8 => 1..3usize, 8 => limit - 2..=limit, 1 => 0..1usize, 1 => limit + 1..limit + 3];
    (
        length,
        prop::sample::select(vec!["a", "é", "\u{1F600}", "\n", "\"", "\\"]),
    )
        .prop_map(|(length, character)| character.repeat(length))
}

fn event_type() -> impl Strategy<Value = String> {
    let part = prop_oneof![9 => "[a-zé]{1,4}", 1 => "", 1 => "\n", 2 => "[a-z]{60,66}"];
    prop_oneof![
        4 => "[a-zé]{1,9}\\.[a-z_ \n]{1,9}",
        2 => prop::collection::vec(part, 0..5).prop_map(|parts| parts.join(".")),
    ]
}

fn data() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "null|true|[0-9]{1,20}|-?[0-9]{1,5}\\.[0-9]{1,5}",
        3 => r#"\{"k":("[a-z]{0,9}"|\[\]|1\.10)\}"#,
        2 => r#""(\\u00[0-9a-f]{2}|\\\\u0000|\\n|é|\\ud83d\\ude00|\\ud800)""#,
        1 => r#"(\{|\[|"|1,|01|1e|nul|\\|'|\{"a":1,\}|1\}|1,"id":2| )"#,
        1 => (65_250..65_400usize).prop_map(|length| format!("\"{}\"", "x".repeat(length))),
        1 => (32_600..32_800usize).prop_map(|length| format!("[{}1]", "1,".repeat(length))),
        1 => (30_000..70_000u32).prop_map(|exponent| format!("1e{exponent}")),
    ]
}

/// What the SQL function says: `None`, or the field and the rule.
async fn by_sql(
    outbox: &Outbox,
    application: &mut PgConnection,
    parts: &[String; 4],
) -> Option<(String, String)> {
    let [event_type, tenant, subject, data] = parts;
    let mut transaction = application.begin().await.unwrap();
    let result = sqlx::query(outbox.sql("select {s}.outbox_publish($1, $2, $3, $4)"))
        .bind(event_type)
        .bind(tenant)
        .bind(subject)
        .bind(data)
        .execute(&mut *transaction)
        .await;
    transaction.rollback().await.unwrap();
    let error = result.err()?.into_database_error().unwrap();
    let error = error.downcast_ref::<PgDatabaseError>();
    let (field, rule) = (error.column().unwrap(), error.detail().unwrap());
    assert_eq!(error.code(), "22023");
    assert_eq!(error.message(), format!("INVALID_INPUT: {field} {rule}"));
    Some((field.to_owned(), rule.to_owned()))
}

async fn by_rust(
    outbox: &Outbox,
    application: &mut PgConnection,
    parts: &[String; 4],
) -> Option<(String, String)> {
    let [event_type, tenant, subject, data] = parts;
    let mut transaction = application.begin().await.unwrap();
    let event = NewEvent::new(event_type, tenant, subject).raw_data(data);
    let result = outbox.publisher().publish(&mut transaction, event).await;
    transaction.rollback().await.unwrap();
    match result.err()? {
        PublishError::InvalidInput { field, rule } => Some((field.into(), rule.into())),
        PublishError::Database(error) => panic!("{error}"),
    }
}

#[test]
fn rust_and_sql_refuse_the_same_events_for_the_same_reason() {
    let runtime = Runtime::new().unwrap();
    for version in PostgresVersion::ALL {
        let (outbox, mut application) = runtime.block_on(async {
            let outbox = Outbox::new(version).await;
            let application = outbox.application().await;
            (outbox, application)
        });
        let parts = (event_type(), text(128), text(512), data());
        let mut refused = 0;
        let cell = std::cell::RefCell::new((&mut application, &mut refused));
        let config = Config {
            cases: CASES,
            failure_persistence: None,
            ..Config::default()
        };
        TestRunner::new(config)
            .run(&parts, |(event_type, tenant, subject, data)| {
                let parts = [event_type, tenant, subject, data];
                let mut held = cell.borrow_mut();
                let (sql, rust) = runtime.block_on(async {
                    let application = &mut *held.0;
                    let sql = by_sql(&outbox, application, &parts).await;
                    (sql, by_rust(&outbox, application, &parts).await)
                });
                *held.1 += u32::from(sql.is_some());
                prop_assert_eq!(sql, rust);
                Ok(())
            })
            .unwrap();
        assert!(
            (CASES / 5..CASES * 4 / 5).contains(&refused),
            "{refused} of {CASES}"
        );
    }
}

#[test]
fn the_limit_of_the_payload_is_exact() {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let outbox = Outbox::new(PostgresVersion::Newest).await;
        let mut application = outbox.application().await;
        let parts = |length: usize| {
            [
                "a.b".to_owned(),
                "t".to_owned(),
                "s".to_owned(),
                format!("\"{}\"", "x".repeat(length)),
            ]
        };
        let sql = outbox.sql("select octet_length(payload::text) from {s}.outbox");
        let empty = NewEvent::new("a.b", "t", "s").raw_data("\"\"");
        outbox
            .publisher()
            .publish(&mut application, empty)
            .await
            .unwrap();
        let (overhead,): (i32,) = sqlx::query_as(sql)
            .fetch_one(&mut application)
            .await
            .unwrap();
        let most = 65_536 - usize::try_from(overhead).unwrap();
        assert_eq!(by_sql(&outbox, &mut application, &parts(most)).await, None);
        assert_eq!(by_rust(&outbox, &mut application, &parts(most)).await, None);
        let refused = Some((
            "payload".to_owned(),
            "must have at most 65536 bytes".to_owned(),
        ));
        assert_eq!(
            by_sql(&outbox, &mut application, &parts(most + 1)).await,
            refused
        );
        assert_eq!(
            by_rust(&outbox, &mut application, &parts(most + 1)).await,
            refused
        );
    });
}
