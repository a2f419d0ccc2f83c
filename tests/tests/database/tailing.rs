//! The look at the head that reads: it says what a look and a read would say at one moment.

use outbox::{Event, Filter, Head, Page, Position, Reader, TailRequest};
use sqlx::Connection;

use crate::fixture::{Outbox, event, filter, on_each_postgres, subjects};

async fn tail(reader: &mut Reader, after: Position, max_events: usize) -> (Head, Page) {
    let max_bytes = 1 << 20;
    let request = TailRequest {
        after,
        max_events,
        max_bytes,
    };
    reader.read_tail(request).await.unwrap()
}

/// Reads on until there is nothing more, in pages of `size`.
async fn read_all(outbox: &Outbox, size: usize) -> Vec<Event> {
    let mut reader = outbox.reader(&Filter::default()).await;
    let (mut after, mut events) = (Position::BEGINNING, Vec::new());
    loop {
        let (head, page) = tail(&mut reader, after, size).await;
        assert!(page.events.len() <= size && head.newest.is_some());
        events.extend(page.events);
        if page.exhausted {
            return events;
        }
        assert!(page.end > after, "every page moves on");
        after = page.end;
    }
}

#[tokio::test]
async fn a_transaction_that_commits_late_is_not_passed_by_a_look_that_reads() {
    on_each_postgres(async |outbox| {
        let (mut one, mut two) = (outbox.application().await, outbox.application().await);
        let publisher = outbox.publisher();
        let mut reader = outbox.reader(&Filter::default()).await;
        let (head, page) = tail(&mut reader, Position::BEGINNING, 10).await;
        assert_eq!((head.newest, page.events.len()), (None, 0));
        assert!(page.exhausted && page.end == head.end());

        let mut slow = one.begin().await.unwrap();
        let first = publisher.publish(&mut slow, event("slow")).await.unwrap();
        let quick = publisher.publish(&mut two, event("quick")).await.unwrap();
        let (head, page) = tail(&mut reader, Position::BEGINNING, 10).await;
        assert!(head.horizon <= first.position.txid);
        assert!(page.events.is_empty() && page.exhausted);
        assert!(page.end < first.position, "OB-5");

        slow.commit().await.unwrap();
        outbox.head_after(quick.position).await;
        let (head, page) = tail(&mut reader, page.end, 10).await;
        assert_eq!(subjects(&page.events), ["slow", "quick"]);
        assert_eq!(head.newest, Some(quick.position));
        assert!(page.exhausted && page.end == head.end());
        let (_, page) = tail(&mut reader, quick.position, 10).await;
        assert!(page.events.is_empty() && page.exhausted);
    })
    .await;
}

#[tokio::test]
async fn a_look_that_reads_goes_on_where_its_page_was_full() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish_subjects(1..=4).await;
        let published = [published, outbox.publish_subjects(5..=7).await].concat();
        outbox.head_after(published[6].position).await;
        for size in [1, 2, 3, 4, 7, 8] {
            let events = read_all(&outbox, size).await;
            let positions: Vec<_> = events.iter().map(Event::position).collect();
            let expected: Vec<_> = published.iter().map(|it| it.position).collect();
            assert_eq!(positions, expected, "pages of {size}");
        }
        let mut reader = outbox.reader(&Filter::default()).await;
        let request = TailRequest {
            after: Position::BEGINNING,
            max_events: 10,
            max_bytes: 1,
        };
        let (head, page) = reader.read_tail(request).await.unwrap();
        assert_eq!(subjects(&page.events), ["node/1"], "one always fits");
        assert_eq!((page.end, page.exhausted), (published[0].position, false));
        assert_eq!(head.newest, Some(published[6].position));
    })
    .await;
}

#[tokio::test]
async fn a_look_that_reads_takes_every_column_that_a_reader_takes_and_no_other() {
    on_each_postgres(async |outbox| {
        // Whatever a reader's filter is, the page is for all.
        let mut reader = outbox.reader(&filter(&["other.*"], &[])).await;
        outbox.run("drop index {s}.outbox_tenant_cursor").await;
        for (column, using) in [
            ("jsonb", "payload"),
            ("json", "payload"),
            ("text", "payload"),
            ("bytea", "convert_to(payload, 'utf8')"),
        ] {
            outbox
                .run(&format!(
                    "alter table {{s}}.outbox alter payload type {column} using {using}"
                ))
                .await;
            let sql = r#"insert into {s}.outbox (topic, payload)
                values ('a.b', '{"id":"1","type":"a.b","subject":"@"}')"#;
            outbox.run(&sql.replace('@', column)).await;
            outbox.head_after_now().await;
            let request = TailRequest {
                after: Position::BEGINNING,
                max_events: 10,
                max_bytes: 1 << 20,
            };
            // A statement may have been made for the column before.
            let mut read = reader.read_tail(request).await;
            if read.is_err() {
                read = reader.read_tail(request).await;
            }
            let (_, page) = read.unwrap();
            let last = page.events.last().unwrap();
            assert_eq!((last.subject(), last.defect()), (column, None));
        }
        outbox
            .run("delete from {s}.outbox; alter table {s}.outbox alter payload type xml using null")
            .await;
        let request = TailRequest {
            after: Position::BEGINNING,
            max_events: 10,
            max_bytes: 1 << 20,
        };
        reader.read_tail(request).await.unwrap_err();
        let error = reader.read_tail(request).await.unwrap_err();
        assert!(
            error.to_string().contains("jsonb, json, text or bytea"),
            "{error}"
        );
    })
    .await;
}
