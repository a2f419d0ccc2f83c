//! Dead letters: a copy of their own of whatever the payload was, and how many are recent.

use std::time::Duration;

use outbox::{Database, DeadLetter, Event, Filter, Owned, Position, Then};

use crate::fixture::{Outbox, event, on_each_postgres};
use crate::holding::{TTL, column, dead_letter, dead_letters, go, hold, settle, settlement};

/// Reads all there is and dead-letters it.
async fn bury_everything(outbox: &Outbox) -> Vec<Event> {
    let one = hold(outbox, "one").await;
    let head = outbox.head_after_now().await;
    let events = outbox.read_all(&Filter::default(), 100, head.horizon).await;
    let letters: Vec<_> = events
        .iter()
        .map(|event| DeadLetter {
            event: event.clone(),
            code: "REFUSED".to_owned(),
            error: event.defect().unwrap_or("refused").to_owned(),
            attempts: 1,
        })
        .collect();
    let settlement = settlement(head.end(), letters, Then::Go);
    assert_eq!(settle(outbox, &one, &settlement).await, Owned::Yes);
    events
}

/// The events as replays have them.
async fn dig_out(outbox: &Outbox) -> Vec<Event> {
    outbox
        .run("update {s}.outbox_dead_letters set state = 'replaying'")
        .await;
    let replays = outbox.database.replays("a", 100).await.unwrap();
    replays.into_iter().map(|replay| replay.event).collect()
}

fn assert_same(before: &[Event], after: &[Event]) {
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(after) {
        assert_eq!(before.position(), after.position());
        assert_eq!(before.topic(), after.topic());
        assert_eq!(before.id(), after.id());
        assert_eq!(before.defect(), after.defect());
        if before.defect() != Some("the payload is not UTF-8 text") {
            assert_eq!(before.payload(), after.payload());
        }
        assert_eq!(after.replay(), 1);
    }
}

/// C1, C6.
#[tokio::test]
async fn a_dead_letter_has_the_payload_as_it_was() {
    on_each_postgres(async |mut outbox| {
        for column in ["jsonb", "json", "text"] {
            let escapes = match column {
                // What jsonb can't hold never gets there.
                "jsonb" => r#"{"n":1.10}"#,
                _ => r#"{ "z":"\u0000","s":"\ud800","n":1e400 }"#,
            };
            outbox
                .run(&format!(
                    r#"drop index if exists {{s}}.outbox_tenant_cursor;
                       truncate {{s}}.outbox, {{s}}.outbox_dead_letters, {{s}}.outbox_cursors;
                       alter table {{s}}.outbox alter payload type {column};
                       insert into {{s}}.outbox (topic, payload) values
                       ('a.b', '{{"id":"1","type":"a.b","data":{escapes}}}'), ('a.b', '[]'),
                       ('a.ü', '{{"id":"2\"\t\\","type":"a.ü","data":1234567890123456789}}')"#,
                ))
                .await;
            // Prepared statements know the column as it was.
            outbox.database = Database::connect(&outbox.settings).await.unwrap();
            let last = outbox.publish(&[event("last")]).await;
            let events = bury_everything(&outbox).await;
            assert_eq!(events.len(), 4);
            assert_same(&events, &dig_out(&outbox).await);
            let rows = dead_letters(&outbox).await;
            assert_eq!(rows[3]["event_id"], *last[0].id, "{column}");
            assert_eq!(rows[2]["topic"], "a.ü");
        }
    })
    .await;
}

/// C1: the copy is text, so it may lack what made the original unfit. It stays unfit.
#[tokio::test]
async fn a_copy_that_is_not_the_payload_is_never_taken_for_it() {
    on_each_postgres(async |outbox| {
        outbox
            .run(
                r#"drop index {s}.outbox_tenant_cursor;
                   alter table {s}.outbox alter payload type bytea using null;
                   insert into {s}.outbox (topic, payload) values
                   ('a.b', '{"id":"1","type":"a.b","subject":"good"}'),
                   ('a.b', convert_to('{"id":"2","type":"a.b","subject":"', 'UTF8') || '\xff22'::bytea || '}'),
                   ('a.b', convert_to('{"id":"3","type":"a.b","subject":"', 'UTF8') || '\x0022'::bytea || '}'),
                   ('a.b', convert_to('{"id":"\u0000","type":"a.b"}', 'UTF8')), ('a.b', '')"#,
            )
            .await;
        let events = bury_everything(&outbox).await;
        let unfit = |events: &[Event]| {
            let unfit = events.iter().map(|event| event.defect().is_some());
            unfit.collect::<Vec<_>>()
        };
        assert_eq!(unfit(&events), [false, true, true, false, true]);
        let replays = dig_out(&outbox).await;
        assert_eq!(unfit(&replays), unfit(&events));
        for n in [0, 3, 4] {
            assert_eq!(replays[n].payload(), events[n].payload());
        }
        let rows = dead_letters(&outbox).await;
        let copy = r#"{"id":"3","type":"a.b","subject":"�"}"#;
        assert_eq!(rows[2]["payload"], copy);
        assert_eq!(rows[3]["event_id"], "\u{fffd}");
        let damaged: Vec<_> = rows.iter().map(|row| !row["damage"].is_null()).collect();
        assert_eq!(damaged, [false, true, true, false, false]);
    })
    .await;
}

#[tokio::test]
async fn what_a_destination_says_is_bounded_and_has_no_nul() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let at = Position::new(7, 9);
        let letter = DeadLetter {
            code: "nul\0 ü".repeat(100),
            error: "nul\0 ü".repeat(1_000),
            attempts: u32::MAX,
            ..dead_letter(at)
        };
        let settled = settle(&outbox, &one, &settlement(at, [letter], Then::Go)).await;
        assert_eq!(settled, Owned::Yes);
        let rows = dead_letters(&outbox).await;
        let error = rows[0]["error"].as_str().unwrap();
        assert!(error.starts_with("nul ünul ü"));
        assert_eq!(error.chars().count(), 2_000);
        assert_eq!(rows[0]["code"].as_str().unwrap().chars().count(), 100);
    })
    .await;
}

/// After a seek the event comes again.
#[tokio::test]
async fn an_event_that_is_refused_anew_is_dead_again() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let at = Position::new(7, 9);
        let seek = "update {s}.outbox_cursors set seek_txid = '1', seek_seq = 1";
        let first = settlement(at, [dead_letter(at)], Then::Go);
        assert_eq!(settle(&outbox, &one, &first).await, Owned::Yes);
        let before = dead_letters(&outbox).await.remove(0);
        let other = DeadLetter {
            code: "OTHER".to_owned(),
            error: "another reason".to_owned(),
            attempts: 1,
            ..dead_letter(at)
        };
        let second = settlement(at, [other], Then::Go);
        for (state, code) in [
            ("dead", "REFUSED"),
            ("replaying", "REFUSED"),
            ("replayed", "OTHER"),
            ("discarded", "OTHER"),
        ] {
            outbox
                .run(&format!(
                    "{seek}; update {{s}}.outbox_dead_letters
                     set state = '{state}', code = 'REFUSED', replays = 3"
                ))
                .await;
            let one = hold(&outbox, "one").await;
            assert_eq!(settle(&outbox, &one, &second).await, Owned::Yes);
            let rows = dead_letters(&outbox).await;
            assert_eq!((rows.len(), column(&rows, "code")), (1, vec![code]));
            let row = &rows[0];
            assert_eq!((&row["id"], &row["replays"]), (&before["id"], &3.into()));
            let kept = if state == "replaying" { state } else { "dead" };
            assert_eq!(row["state"], kept);
            if code == "OTHER" {
                assert_eq!(row["error"], "another reason");
                assert_eq!(row["attempts"], 1);
                for time in ["first_failed_at", "dead_lettered_at", "state_changed_at"] {
                    assert!(row[time].as_str() > before[time].as_str(), "{time}");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn many_dead_letters_are_written_in_order_and_only_once() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        assert_eq!(go(&outbox, &one, Position::new(7, 100)).await, Owned::Yes);
        // Half of them lie behind the cursor: they were written by whoever passed them.
        let letters: Vec<_> = (1..=200)
            .map(|seq| dead_letter(Position::new(7, seq)))
            .collect();
        let all = settlement(Position::new(7, 200), letters, Then::Go);
        assert_eq!(settle(&outbox, &one, &all).await, Owned::Yes);
        let rows = dead_letters(&outbox).await;
        let ids: Vec<_> = rows.iter().map(|row| row["id"].as_i64().unwrap()).collect();
        assert_eq!(ids.len(), 100);
        assert!(ids.is_sorted());
        assert_eq!(rows[0]["event_id"], "evt_101");
    })
    .await;
}

#[tokio::test]
async fn dead_letters_are_recent_within_a_window_and_since_the_sink_was_resumed() {
    on_each_postgres(async |outbox| {
        let recent = async |window| {
            let counted = outbox.database.recent_dead_letters("a", window, &[]).await;
            counted.unwrap()
        };
        assert_eq!(recent(TTL).await, 0, "there is no cursor yet");
        let one = hold(&outbox, "one").await;
        let letters: Vec<_> = (1..=5)
            .map(|seq| dead_letter(Position::new(7, seq)))
            .collect();
        let all = settlement(Position::new(7, 5), letters, Then::Go);
        assert_eq!(settle(&outbox, &one, &all).await, Owned::Yes);
        assert_eq!(recent(TTL).await, 5);
        outbox
            .run(
                "update {s}.outbox_dead_letters set dead_lettered_at = now() - interval '1 h'
                     where seq <= 2;
                 update {s}.outbox_dead_letters set state = 'discarded' where seq = 3;
                 insert into {s}.outbox_dead_letters (sink, txid, seq, event_id, topic, payload,
                     code, error, attempts, first_failed_at)
                     values ('b', '7', 1, 'x', 'a.b', '{}', 'X', 'x', 1, now())",
            )
            .await;
        assert_eq!(recent(TTL).await, 3);
        assert_eq!(recent(TTL * 90).await, 5);
        assert_eq!(recent(Duration::MAX).await, 5);
        let except = [1, 4, 9].map(|seq| Position::new(7, seq));
        let counted = outbox.database.recent_dead_letters("a", TTL, &except);
        assert_eq!(counted.await.unwrap(), 2, "one of the recent three");
        outbox
            .run(
                "update {s}.outbox_cursors set resumed_at = now() - interval '10 min';
                 update {s}.outbox_dead_letters set dead_lettered_at = now() - interval '20 min'
                     where seq = 4",
            )
            .await;
        assert_eq!(recent(TTL * 90).await, 2);
        outbox
            .run("update {s}.outbox_cursors set resumed_at = now()")
            .await;
        assert_eq!(recent(TTL * 90).await, 0);
    })
    .await;
}
