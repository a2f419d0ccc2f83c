//! A deployment may keep its payloads as `json`, `text` or `bytea`.

use outbox::{DatabaseErrorKind, Filter, NewEvent, Position};

use crate::fixture::{event, filter, on_each_empty_database, on_each_postgres, request, subjects};

/// C1.
#[tokio::test]
async fn a_payload_that_no_text_can_hold_does_not_stop_the_others() {
    on_each_postgres(async |outbox| {
        outbox
            .run(
                // The tenants' index would refuse such rows itself.
                r#"drop index {s}.outbox_tenant_cursor;
                   alter table {s}.outbox alter payload type json;
                   insert into {s}.outbox (topic, payload) values
                   ('a.b', '{"id":"1","type":"a.b","tenantId":"t","subject":"nul","data":"\u0000"}'),
                   ('a.b', '{"id":"2","type":"a.b","tenantId":"t","subject":"lone","data":"\ud800"}'),
                   ('a.b', '{"id":"3","type":"a.b","tenantId":"t\u0000","subject":"x"}'),
                   ('a.b', '{"id":"4","type":"a.b","tenantId":"t","subject":"good"}')"#,
            )
            .await;
        let last = outbox.publish(&[event("last")]).await;
        let head = outbox.head_after(last[0].position).await;
        let events = outbox.read_all(&filter(&["a.*"], &["t"]), 10, head.horizon).await;
        assert_eq!(subjects(&events), ["nul", "lone", "good"]);
        assert_eq!(events[0].data(), r#""\u0000""#);
        let events = outbox.read_all(&Filter::default(), 10, head.horizon).await;
        assert_eq!(events.len(), 5);
    })
    .await;
}

#[tokio::test]
async fn json_and_text_columns_keep_the_text_as_it_was_written() {
    on_each_postgres(async |outbox| {
        let mut reader = outbox.reader(&filter(&[], &["t"])).await;
        for column in ["json", "text"] {
            outbox
                .run(&format!(
                    "drop index if exists {{s}}.outbox_tenant_cursor;
                     alter table {{s}}.outbox alter payload type {column}"
                ))
                .await;
            let data = r#"{ "b":1e2,"a":1.10,   "a":2}"#;
            let published = outbox
                .publish(&[NewEvent::new("a.b", "t", column).raw_data(data)])
                .await;
            let head = outbox.head_after(published[0].position).await;
            let request = request(Position::BEGINNING, head);
            if column == "text" {
                // The reader's statement was made for another column.
                reader.read(request).await.unwrap_err();
            }
            let events = reader.read(request).await.unwrap().events;
            let event = events
                .iter()
                .find(|event| event.subject() == column)
                .unwrap();
            assert_eq!(event.data(), data);
        }
    })
    .await;
}

#[tokio::test]
async fn bytes_that_are_no_text_make_an_event_with_a_defect() {
    on_each_postgres(async |outbox| {
        outbox
            .run(
                r#"drop index {s}.outbox_tenant_cursor;
                   alter table {s}.outbox alter payload type bytea using null;
                   insert into {s}.outbox (topic, payload) values
                   ('a.b', '{"id":"1","type":"a.b","subject":"good"}'),
                   ('a.b', '\xfffe'), ('a.b', '')"#,
            )
            .await;
        let head = outbox.head_after_now().await;
        let events = outbox.read_all(&Filter::default(), 10, head.horizon).await;
        let defects: Vec<_> = events
            .iter()
            .map(|event| event.defect().is_some())
            .collect();
        assert_eq!(defects, [false, true, true]);
    })
    .await;
}

#[tokio::test]
async fn a_payload_of_another_type_is_refused_at_once() {
    on_each_postgres(async |outbox| {
        outbox
            .run(
                "drop index {s}.outbox_tenant_cursor;
                 alter table {s}.outbox alter payload type xml using null",
            )
            .await;
        let error = outbox
            .database
            .reader(&Filter::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), DatabaseErrorKind::Misconfigured);
        assert!(
            error.to_string().contains("jsonb, json, text or bytea"),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_missing_table_is_told_from_an_outage() {
    on_each_empty_database(async |_, settings| {
        let database = outbox::Database::connect(&settings).await.unwrap();
        for error in [
            database.reader(&Filter::default()).await.unwrap_err(),
            database.head().await.unwrap_err(),
            database.cursors().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), DatabaseErrorKind::NotMigrated, "{error}");
            assert!(error.to_string().contains("sinks migrate"), "{error}");
        }
    })
    .await;
}
