//! What is shown of the cursors, and of what holds retention back.

use std::collections::BTreeMap;
use std::time::Duration;

use outbox::{
    CursorStatus, DeadLetterCounts, DeadLetterFilter, MAX_COUNTED_LAG, Owned, Position,
    RetentionHold, SeekTarget, Stage, Then,
};

use crate::fixture::{Outbox, on_each_postgres};
use crate::holding::{TTL, back_off, dead_letter, failure, go, hold, settle, settlement, suspect};

async fn status(outbox: &Outbox) -> CursorStatus {
    let mut cursors = outbox.database.cursors().await.unwrap();
    assert_eq!(cursors.len(), 1);
    cursors.remove(0)
}

#[tokio::test]
async fn what_stands_in_a_sinks_way_is_shown() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish_subjects(0..6).await;
        outbox.head_after(published[5].position).await;
        let one = hold(&outbox, "one").await;
        let shown = status(&outbox).await;
        assert_eq!((shown.lag, shown.holder.as_deref()), (6, Some("one")));
        assert!(shown.lag_age.unwrap() < TTL);
        assert_eq!((shown.pause, shown.suspect, shown.seek), (None, None, None));
        assert_eq!(shown.dead_letters, DeadLetterCounts::default());

        let dead = [0, 1, 2, 3].map(|n: usize| dead_letter(published[n].position));
        let done = settlement(published[3].position, dead, Then::Go);
        assert_eq!(settle(&outbox, &one, &done).await, Owned::Yes);
        let suspected = suspect(published[4].position, Stage::Probing(published[5].position));
        let noted = back_off(&outbox, &one, failure(Some(suspected.clone()))).await;
        assert_eq!(noted, Owned::Yes);
        let database = &outbox.database;
        database.pause("a", Some("rebuild"), "jo").await.unwrap();
        database
            .seek("a", SeekTarget::Beginning, "jo", false)
            .await
            .unwrap();
        for (ids, discard) in [(vec![1, 2], false), (vec![3], true)] {
            let filter = DeadLetterFilter {
                ids,
                ..DeadLetterFilter::default()
            };
            if discard {
                database
                    .discard_dead_letters(&filter, "jo", false)
                    .await
                    .unwrap();
            } else {
                database
                    .replay_dead_letters(&filter, &BTreeMap::new(), "jo", false)
                    .await
                    .unwrap();
            }
        }
        outbox
            .run("update {s}.outbox_dead_letters set state = 'replayed' where id = 2")
            .await;

        let shown = status(&outbox).await;
        let pause = shown.pause.unwrap();
        assert_eq!(
            (pause.by.as_str(), pause.reason.as_deref()),
            ("jo", Some("rebuild"))
        );
        assert!(pause.age < TTL);
        assert_eq!(shown.suspect, Some(suspected));
        assert!(shown.suspect_age.unwrap() < TTL);
        assert_eq!((shown.seek, shown.attempts), (Some(Position::BEGINNING), 3));
        let counts = DeadLetterCounts {
            dead: 1,
            replaying: 1,
            replayed: 1,
            discarded: 1,
        };
        assert_eq!(shown.dead_letters, counts);
    })
    .await;
}

#[tokio::test]
async fn counting_dead_letters_ends_early_in_each_state() {
    on_each_postgres(async |outbox| {
        hold(&outbox, "one").await;
        outbox
            .run(
                "insert into {s}.outbox_dead_letters
                     (sink, txid, seq, event_id, topic, payload, code, error, attempts,
                      first_failed_at, state)
                 select 'a', '1', n, 'e', 'a.b', '{}', 'NO', 'no', 1, now(),
                     case when n <= 10500 then 'replayed' else 'dead' end
                 from generate_series(1, 10502) as n",
            )
            .await;
        let counts = DeadLetterCounts {
            dead: 2,
            replayed: MAX_COUNTED_LAG,
            ..DeadLetterCounts::default()
        };
        assert_eq!(status(&outbox).await.dead_letters, counts);
    })
    .await;
}

#[tokio::test]
async fn the_cursor_that_is_the_furthest_back_holds_retention() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        assert_eq!(database.retention_hold().await.unwrap(), None);
        let published = outbox.publish_subjects(0..5).await;
        outbox.head_after(published[4].position).await;
        let one = hold(&outbox, "one").await;
        assert_eq!(go(&outbox, &one, published[3].position).await, Owned::Yes);
        let hold = async || {
            let hold = database.retention_hold().await.unwrap().unwrap();
            assert!(hold.age.is_none_or(|age| age < Duration::from_secs(60)));
            RetentionHold { age: None, ..hold }
        };
        let held = |consumer: &str, position, rows| RetentionHold {
            consumer: consumer.to_owned(),
            position,
            rows,
            age: None,
            strange: false,
        };
        assert_eq!(hold().await, held("sink:a", published[3].position, 1));
        let back = SeekTarget::Position(published[1].position);
        database.seek("a", back, "jo", false).await.unwrap();
        assert_eq!(hold().await, held("sink:a", published[1].position, 3));
        outbox
            .run(
                "insert into {s}.outbox_cursors (stream, consumer, txid, seq, token)
                  values ('outbox', 'reader:x', '1', 1, 1), ('other', 'sink:y', '0', 0, 1)",
            )
            .await;
        assert_eq!(hold().await, held("reader:x", Position::new(1, 1), 5));
        outbox
            .run("update {s}.outbox_cursors set system_identifier = 1 where consumer = 'sink:a'")
            .await;
        assert!(hold().await.strange);
        outbox
            .run("delete from {s}.outbox_cursors where consumer = 'sink:a';
                  insert into {s}.outbox (txid, topic, payload) values ('99999999999', 'a.b', '{}')")
            .await;
        assert!(hold().await.strange);
    })
    .await;
}
