//! Publishing in the application's own transaction, from Rust and from SQL.

use outbox::{Event, Filter, NewEvent, PublishError};
use sqlx::Connection;

use crate::fixture::{event, on_each_postgres};

#[tokio::test]
async fn many_events_come_out_in_the_order_of_their_input() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish_subjects(0..5_000).await;
        assert!(published.is_sorted_by(|a, b| a.position < b.position));
        let head = outbox.head_after(published[0].position).await;
        let events = outbox.read_all(&Filter::default(), 700, head.horizon).await;
        assert_eq!(events.len(), 5_000);
        for (n, (event, published)) in events.iter().zip(&published).enumerate() {
            assert_eq!(event.subject(), format!("node/{n}"));
            assert_eq!(
                (event.id(), event.position()),
                (&*published.id, published.position)
            );
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_rolled_back_was_never_published() {
    on_each_postgres(async |outbox| {
        let mut application = outbox.application().await;
        let mut transaction = application.begin().await.unwrap();
        outbox
            .publisher()
            .publish(&mut transaction, event("lost"))
            .await
            .unwrap();
        transaction.rollback().await.unwrap();
        let kept = outbox.publish(&[event("kept")]).await;
        let head = outbox.head_after(kept[0].position).await;
        let events = outbox.read_all(&Filter::default(), 10, head.horizon).await;
        assert_eq!(
            events.iter().map(Event::subject).collect::<Vec<_>>(),
            ["kept"]
        );
    })
    .await;
}

#[tokio::test]
async fn an_event_of_a_savepoint_belongs_to_the_whole_transaction() {
    on_each_postgres(async |outbox| {
        let mut application = outbox.application().await;
        let mut transaction = application.begin().await.unwrap();
        let publisher = outbox.publisher();
        let first = publisher
            .publish(&mut transaction, event("outer"))
            .await
            .unwrap();
        let mut savepoint = transaction.begin().await.unwrap();
        publisher
            .publish(&mut savepoint, event("rolled back"))
            .await
            .unwrap();
        savepoint.rollback().await.unwrap();
        let mut savepoint = transaction.begin().await.unwrap();
        let inner = publisher
            .publish(&mut savepoint, event("inner"))
            .await
            .unwrap();
        savepoint.commit().await.unwrap();
        transaction.commit().await.unwrap();
        assert_eq!(first.position.txid, inner.position.txid);
        let head = outbox.head_after(inner.position).await;
        let events = outbox.read_all(&Filter::default(), 10, head.horizon).await;
        assert_eq!(crate::fixture::subjects(&events), ["outer", "inner"]);
    })
    .await;
}

#[tokio::test]
async fn any_language_publishes_with_one_function_and_no_cast() {
    on_each_postgres(async |outbox| {
        let mut application = outbox.application().await;
        let calls = [
            "'a.b', 't', 's'",
            "'a.b', 't', 's', null",
            r#"'a.b', 't', 's', '{"n":1.10}'"#,
            "'a.b', 't', 's', jsonb_build_object('n', 1.10)",
            "'a.b', 't', 's', json_build_object('n', 1.10)",
            "type => 'a.b', tenant_id => 't', subject => 's', data => '[]'",
        ];
        for call in calls {
            let sql = outbox.sql(&format!("select {{s}}.outbox_publish({call})"));
            let (id,): (String,) = sqlx::query_as(sql)
                .fetch_one(&mut application)
                .await
                .unwrap();
            assert!(id.starts_with("evt_") && id.len() == 30, "{id}");
        }
        let sql = outbox.sql("select {s}.outbox_publish($1, $2, $3, $4)");
        let bound = sqlx::query(sql)
            .bind("a.b")
            .bind("t")
            .bind("s")
            .bind(r#"{"n":1.10}"#);
        bound.execute(&mut application).await.unwrap();
        let last = outbox.publish(&[event("last")]).await;
        let head = outbox.head_after(last[0].position).await;
        let events = outbox.read_all(&Filter::default(), 100, head.horizon).await;
        let data: Vec<_> = events.iter().map(Event::data).collect();
        let number = r#"{"n": 1.10}"#;
        assert_eq!(
            data,
            ["null", "null", number, number, number, "[]", number, "null"]
        );
        assert!(events.iter().all(|event| event.defect().is_none()));
    })
    .await;
}

#[tokio::test]
async fn ids_sort_by_time_and_never_repeat() {
    on_each_postgres(async |outbox| {
        let mut ids = Vec::new();
        for n in 0..50 {
            ids.push(outbox.publish_subjects([n]).await.remove(0).id);
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        assert!(
            ids.iter()
                .flat_map(|id| id.chars().skip("evt_".len()))
                .all(|character| { "0123456789abcdefghjkmnpqrstvwxyz".contains(character) })
        );
        let many = outbox.publish_subjects(0..2_000).await;
        let distinct: std::collections::HashSet<_> = many.iter().map(|one| &one.id).collect();
        assert_eq!(distinct.len(), 2_000);
    })
    .await;
}

#[tokio::test]
async fn the_time_is_utc_whatever_the_sessions_zone() {
    on_each_postgres(async |outbox| {
        let mut application = outbox.application().await;
        sqlx::raw_sql("set timezone to 'Asia/Kathmandu'; set datestyle to 'German'")
            .execute(&mut application)
            .await
            .unwrap();
        let published = outbox.publisher().publish(&mut application, event("s")).await.unwrap();
        let head = outbox.head_after(published.position).await;
        let events = outbox.read_all(&Filter::default(), 10, head.horizon).await;
        let sql = "select abs(extract(epoch from $1::timestamptz - clock_timestamp()))::float8, $1 ~ '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$'";
        let (age, well_formed): (f64, bool) =
            sqlx::query_as(sql).bind(events[0].time()).fetch_one(&mut application).await.unwrap();
        assert!(age < 60.0 && well_formed, "{}", events[0].time());
    })
    .await;
}

#[tokio::test]
async fn no_temporary_table_and_no_search_path_can_mislead_the_functions() {
    on_each_postgres(async |outbox| {
        let mut application = outbox.application().await;
        sqlx::raw_sql(
            "create temp table outbox (topic text, payload json, txid xid8, seq int8);
             set search_path to pg_temp",
        )
        .execute(&mut application)
        .await
        .unwrap();
        let published = outbox
            .publisher()
            .publish(&mut application, event("s"))
            .await
            .unwrap();
        let head = outbox.head_after(published.position).await;
        assert_eq!(
            outbox
                .read_all(&Filter::default(), 10, head.horizon)
                .await
                .len(),
            1
        );
    })
    .await;
}

#[tokio::test]
async fn a_refused_event_fails_the_callers_transaction() {
    on_each_postgres(async |outbox| {
        let mut application = outbox.application().await;
        let mut transaction = application.begin().await.unwrap();
        outbox
            .publisher()
            .publish(&mut transaction, event("good"))
            .await
            .unwrap();
        // Only the server knows that this is longer once stored.
        let bad = NewEvent::new("a.b", "t", "s").raw_data("1e70000");
        let error = outbox
            .publisher()
            .publish(&mut transaction, bad)
            .await
            .unwrap_err();
        assert!(matches!(&error, PublishError::InvalidInput { field, .. } if field == "payload"));
        assert_eq!(
            error.to_string(),
            "INVALID_INPUT: payload must have at most 65536 bytes"
        );
        assert!(
            sqlx::query("select 1")
                .execute(&mut *transaction)
                .await
                .is_err()
        );
    })
    .await;
}

#[tokio::test]
async fn nothing_is_sent_when_one_of_many_breaks_a_rule() {
    on_each_postgres(async |outbox| {
        let mut application = outbox.application().await;
        let events = [event("good"), NewEvent::new("bad", "t", "s")];
        outbox
            .publisher()
            .publish_many(&mut application, &events)
            .await
            .unwrap_err();
        let sql = outbox.sql("select count(*) from {s}.outbox");
        let (count,): (i64,) = sqlx::query_as(sql)
            .fetch_one(&mut application)
            .await
            .unwrap();
        assert_eq!(count, 0);
        assert_eq!(
            outbox
                .publisher()
                .publish_many(&mut application, &[])
                .await
                .unwrap(),
            []
        );
    })
    .await;
}

#[tokio::test]
async fn a_database_without_an_outbox_says_so() {
    crate::fixture::on_each_empty_database(async |server, _| {
        let mut application = server.connect().await;
        let error = outbox::publish(&mut application, event("s"))
            .await
            .unwrap_err();
        assert!(matches!(error, PublishError::Database(_)), "{error:?}");
    })
    .await;
}
