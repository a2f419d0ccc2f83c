//! Nothing is skipped and nothing is reordered, whatever commits when.

use outbox::{Filter, NewEvent, PageRequest, Position, Txid};
use sqlx::Connection;

use crate::fixture::{event, filter, on_each_postgres, request, subjects};

/// A6.
#[tokio::test]
async fn a_transaction_that_commits_late_is_not_passed() {
    on_each_postgres(async |outbox| {
        let (mut one, mut two) = (outbox.application().await, outbox.application().await);
        let publisher = outbox.publisher();
        let mut slow = one.begin().await.unwrap();
        let first = publisher.publish(&mut slow, event("slow")).await.unwrap();
        let quick = publisher.publish(&mut two, event("quick")).await.unwrap();
        assert!(first.position < quick.position);

        let head = outbox.database.head().await.unwrap();
        assert!(head.horizon <= first.position.txid);
        let mut reader = outbox.reader(&Filter::default()).await;
        let page = reader
            .read(request(Position::BEGINNING, head))
            .await
            .unwrap();
        assert!(page.events.is_empty() && page.exhausted);
        assert!(page.end < first.position, "OB-5");

        slow.commit().await.unwrap();
        let head = outbox.head_after(quick.position).await;
        assert_eq!(head.newest, Some(quick.position));
        let page = reader.read(request(page.end, head)).await.unwrap();
        assert_eq!(subjects(&page.events), ["slow", "quick"]);
    })
    .await;
}

/// A15.
#[tokio::test]
async fn what_commits_between_horizon_and_rows_comes_with_the_next_page() {
    on_each_postgres(async |outbox| {
        let (mut one, mut two) = (outbox.application().await, outbox.application().await);
        let publisher = outbox.publisher();
        let mut slow = one.begin().await.unwrap();
        let first = publisher.publish(&mut slow, event("first")).await.unwrap();
        let early = outbox.database.head().await.unwrap();
        slow.commit().await.unwrap();
        let second = publisher.publish(&mut two, event("second")).await.unwrap();

        let mut reader = outbox.reader(&Filter::default()).await;
        let page = reader
            .read(request(Position::BEGINNING, early))
            .await
            .unwrap();
        assert!(page.events.is_empty() && page.end < first.position);
        let head = outbox.head_after(second.position).await;
        let page = reader.read(request(page.end, head)).await.unwrap();
        assert_eq!(subjects(&page.events), ["first", "second"]);
        assert_eq!(page.end, head.end());
    })
    .await;
}

/// A4.
#[tokio::test]
async fn a_page_may_end_within_a_transaction_whose_numbers_are_interleaved() {
    on_each_postgres(async |outbox| {
        let (mut one, mut two) = (outbox.application().await, outbox.application().await);
        let publisher = outbox.publisher();
        let (mut a, mut b) = (one.begin().await.unwrap(), two.begin().await.unwrap());
        let mut last = None;
        for n in 0..5 {
            publisher
                .publish(&mut a, event(&format!("a{n}")))
                .await
                .unwrap();
            last = Some(
                publisher
                    .publish(&mut b, event(&format!("b{n}")))
                    .await
                    .unwrap(),
            );
        }
        b.commit().await.unwrap();
        a.commit().await.unwrap();
        let head = outbox.head_after(last.unwrap().position).await;
        let expected = ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "b3", "b4"];
        for size in 1..12 {
            let events = outbox
                .read_all(&Filter::default(), size, head.horizon)
                .await;
            assert_eq!(subjects(&events), expected, "pages of {size}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_prepared_transaction_holds_the_horizon_until_it_is_resolved() {
    on_each_postgres(async |outbox| {
        let mut application = outbox.application().await;
        let gid = outbox.server.name();
        let publisher = outbox.publisher();
        sqlx::raw_sql("begin")
            .execute(&mut application)
            .await
            .unwrap();
        let prepared = publisher
            .publish(&mut application, event("prepared"))
            .await
            .unwrap();
        let sql = sqlx::AssertSqlSafe(format!("prepare transaction '{gid}'"));
        sqlx::raw_sql(sql).execute(&mut application).await.unwrap();
        let next = publisher
            .publish(&mut application, event("next"))
            .await
            .unwrap();
        let held = outbox.database.head().await.unwrap();
        let sql = sqlx::AssertSqlSafe(format!("commit prepared '{gid}'"));
        sqlx::raw_sql(sql).execute(&mut application).await.unwrap();
        assert!(held.horizon <= prepared.position.txid);
        let head = outbox.head_after(next.position).await;
        let events = outbox.read_all(&Filter::default(), 10, head.horizon).await;
        assert_eq!(subjects(&events), ["prepared", "next"]);
    })
    .await;
}

/// A13, in small; the plan's test shows that size does not matter.
#[tokio::test]
async fn a_filter_that_matches_nothing_still_moves_on_and_in_few_pages() {
    on_each_postgres(async |outbox| {
        outbox
            .run(
                "insert into {s}.outbox (topic, payload)
                 select 'node.up', '{\"id\":\"e\",\"type\":\"node.up\",\"tenantId\":\"t\"}'
                 from generate_series(1, 100000); analyze {s}.outbox",
            )
            .await;
        let last = outbox
            .publish(&[NewEvent::new("order.paid", "ten_1", "order/1")])
            .await;
        let head = outbox.head_after(last[0].position).await;
        for filter in [filter(&["order.lost"], &[]), filter(&[], &["nobody"])] {
            let mut reader = outbox.reader(&filter).await;
            let (mut after, mut pages) = (Position::BEGINNING, 0);
            loop {
                let page = reader.read(request(after, head)).await.unwrap();
                assert!(page.events.is_empty());
                pages += 1;
                after = page.end;
                if page.exhausted {
                    break;
                }
            }
            assert!(pages < 60, "{pages} pages");
            assert_eq!(after, head.end(), "a restart scans nothing again");
            let page = reader.read(request(after, head)).await.unwrap();
            assert_eq!((page.rows_scanned, page.end), (0, after));
        }
        let found = outbox
            .read_all(&filter(&["order.*"], &["ten_1"]), 100, head.horizon)
            .await;
        assert_eq!(subjects(&found), ["order/1"]);
    })
    .await;
}

#[tokio::test]
async fn a_filter_in_sql_takes_what_the_filter_in_memory_takes() {
    on_each_postgres(async |outbox| {
        let mut events = Vec::new();
        for (n, event_type) in ["a.b", "a.b.c", "a_b.c", "aXb.c", "x.a.b", "50%.off"]
            .iter()
            .enumerate()
        {
            for tenant in ["t", "t%", "T"] {
                events.push(NewEvent::new(*event_type, tenant, format!("s/{n}")));
            }
        }
        let published = outbox.publish(&events).await;
        let head = outbox.head_after(published[0].position).await;
        let all = outbox.read_all(&Filter::default(), 100, head.horizon).await;
        assert_eq!(all.len(), events.len());
        for types in [
            &[][..],
            &["*"],
            &["a.*"],
            &["a_b.*", "50%.*"],
            &["*.b", "x.*"],
            &["a.b"],
        ] {
            for tenants in [&[][..], &["t"], &["t%", "T"], &["none"]] {
                let filter = filter(types, tenants);
                let expected: Vec<_> = all
                    .iter()
                    .filter(|event| filter.takes(event))
                    .map(|event| event.id())
                    .collect();
                for size in [1, 4, 100] {
                    let read = outbox.read_all(&filter, size, head.horizon).await;
                    let read: Vec<_> = read.iter().map(|event| event.id()).collect();
                    assert_eq!(read, expected, "{filter:?} in pages of {size}");
                }
            }
        }
    })
    .await;
}

/// C6.
#[tokio::test]
async fn digits_arrive_as_they_were_written() {
    on_each_postgres(async |outbox| {
        let data = r#"{"k": 18446744073709551616, "m": 1.10, "n": 1234567890123456789}"#;
        let published = outbox
            .publish(&[NewEvent::new("a.b", "t", "s").raw_data(data)])
            .await;
        let head = outbox.head_after(published[0].position).await;
        let events = outbox.read_all(&Filter::default(), 10, head.horizon).await;
        assert_eq!(events[0].data(), data);
    })
    .await;
}

/// C12.
#[tokio::test]
async fn a_time_of_infinity_disturbs_neither_reading_nor_status() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish_subjects([0, 1]).await;
        outbox.run("update {s}.outbox set created_at = 'infinity'").await;
        let head = outbox.head_after(published[0].position).await;
        assert_eq!(outbox.read_all(&Filter::default(), 10, head.horizon).await.len(), 2);
        for time in ["infinity", "-infinity", "4713-01-01 BC", "294276-12-31"] {
            outbox.run(&format!("update {{s}}.outbox set created_at = '{time}'")).await;
            outbox
                .run("insert into {s}.outbox_cursors (stream, consumer, txid, seq, token) values ('outbox', 'sink:a', '0', 0, 0) on conflict do nothing")
                .await;
            outbox.head_after_now().await;
            outbox.database.cursors().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn large_events_fill_a_page_by_bytes_and_one_too_large_comes_alone() {
    on_each_postgres(async |outbox| {
        // Larger than the rules allow: a foreign table may hold such rows.
        outbox
            .run(
                "insert into {s}.outbox (topic, payload)
                 select 'a.b', json_build_object('id', n, 'type', 'a.b', 'subject', n::text,
                     'data', repeat('x', case when n % 10 = 0 then 3000000 else 400000 end))
                 from generate_series(1, 40) as n",
            )
            .await;
        let last = outbox.publish(&[event("last")]).await;
        let head = outbox.head_after(last[0].position).await;
        let mut reader = outbox.reader(&Filter::default()).await;
        let (mut after, mut sizes, mut count) = (Position::BEGINNING, Vec::new(), 0);
        loop {
            let max_bytes = 1_000_000;
            let page = reader
                .read(PageRequest {
                    after,
                    horizon: head.horizon,
                    max_events: 500,
                    max_bytes,
                })
                .await
                .unwrap();
            assert!(page.payload_bytes <= max_bytes || page.events.len() == 1);
            count += page.events.len();
            sizes.push(page.events.len());
            after = page.end;
            if page.exhausted {
                break;
            }
        }
        assert_eq!(count, 41, "{sizes:?}");
        assert!(sizes.contains(&2), "pages are filled: {sizes:?}");
    })
    .await;
}

#[tokio::test]
async fn an_empty_outbox_has_no_newest_event() {
    on_each_postgres(async |outbox| {
        let head = outbox.database.head().await.unwrap();
        assert_eq!(head.newest, None);
        assert!(head.horizon > Txid(2));
        let mut reader = outbox.reader(&Filter::default()).await;
        let page = reader
            .read(request(Position::BEGINNING, head))
            .await
            .unwrap();
        assert_eq!((page.exhausted, page.end), (true, head.end()));
    })
    .await;
}

#[tokio::test]
async fn a_cursor_above_the_horizon_stays_where_it_is() {
    on_each_postgres(async |outbox| {
        let head = outbox.database.head().await.unwrap();
        let after = Position::new(head.horizon.0 + 1_000, 5);
        let mut reader = outbox.reader(&Filter::default()).await;
        let page = reader.read(request(after, head)).await.unwrap();
        assert_eq!((page.end, page.events.len()), (after, 0));
    })
    .await;
}

/// Whoever adds a command locks the table first, so that ids appear in order.
#[tokio::test]
async fn the_head_shows_the_last_operators_command() {
    on_each_postgres(async |outbox| {
        let operation = async || outbox.database.head().await.unwrap().operation;
        assert_eq!(operation().await, 0);
        let order = "insert into {s}.outbox_operations (command, by_whom) values ('pause', 'me')";
        outbox.run(order).await;
        assert_eq!(operation().await, 1);
        outbox.run(order).await;
        let head = outbox.database.head().await.unwrap();
        assert_eq!((head.operation, head.newest), (2, None));
    })
    .await;
}
