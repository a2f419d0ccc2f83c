//! Replaying and discarding dead letters: which ones, and what an operator is warned of.

use std::collections::BTreeMap;
use std::time::Duration;

use outbox::{
    DeadLetter, DeadLetterFilter, DeadLetterRow, DeadLetterState, Event, Filter, Lease, Moment,
    NewEvent, Newer, Owned, Position, Published, ReplayOutcome, Replaying, SeekTarget, Then,
};

use crate::fixture::{Outbox, on_each_postgres};
use crate::holding::{claim, go, hold, settle, settlement};
use crate::operations::record;

/// Sets events aside and moves sink `a` past all of them.
async fn bury(outbox: &Outbox, lease: &Lease, letters: &[(&Published, &str, &str, &str)]) {
    let dead: Vec<_> = letters
        .iter()
        .map(|(published, topic, subject, code)| {
            let payload = format!(r#"{{"id":"{}","subject":"{subject}"}}"#, published.id);
            DeadLetter {
                event: Event::new(published.position, *topic, payload),
                code: (*code).to_owned(),
                error: "too green".to_owned(),
                attempts: 5,
            }
        })
        .collect();
    let end = dead
        .iter()
        .map(|letter| letter.event.position())
        .max()
        .unwrap();
    outbox.head_after(end).await;
    let settled = settle(outbox, lease, &settlement(end, dead, Then::Go)).await;
    assert_eq!(settled, Owned::Yes);
}

/// Three dead letters of sink `a`: two of one code, two of one type.
async fn scene(outbox: &Outbox) -> (Vec<Published>, Lease) {
    let published = outbox.publish_subjects(0..6).await;
    let one = hold(outbox, "one").await;
    let letters = [
        (&published[0], "order.paid", "node/0", "TOO_LARGE"),
        (&published[1], "order.sent", "node/1", "REFUSED"),
        (&published[2], "node.up", "node/2", "REFUSED"),
    ];
    bury(outbox, &one, &letters).await;
    (published, one)
}

fn everything() -> DeadLetterFilter {
    DeadLetterFilter::default()
}

fn by_id(ids: impl Into<Vec<i64>>) -> DeadLetterFilter {
    DeadLetterFilter {
        ids: ids.into(),
        ..everything()
    }
}

async fn list(outbox: &Outbox, filter: &DeadLetterFilter) -> Vec<DeadLetterRow> {
    outbox
        .database
        .dead_letters(filter, true, 100)
        .await
        .unwrap()
}

async fn states(outbox: &Outbox) -> Vec<&'static str> {
    let rows = list(outbox, &everything()).await;
    rows.iter().map(|row| row.state.as_str()).collect()
}

async fn replay(outbox: &Outbox, filter: &DeadLetterFilter) -> Replaying {
    let database = &outbox.database;
    database
        .replay_dead_letters(filter, &BTreeMap::new(), "jo", false)
        .await
        .unwrap()
}

async fn discard(outbox: &Outbox, filter: &DeadLetterFilter) -> u64 {
    let database = &outbox.database;
    let discarded = database.discard_dead_letters(filter, "jo", false).await;
    discarded.unwrap().sinks.values().sum()
}

fn of_a(number: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("a".to_owned(), number)])
}

#[tokio::test]
async fn dead_letters_are_listed_by_sink_code_type_age_and_id() {
    on_each_postgres(async |outbox| {
        let (published, _) = scene(&outbox).await;
        outbox
            .run("update {s}.outbox_dead_letters set dead_lettered_at = now() - interval '1 h' where id = 2;
                  update {s}.outbox_dead_letters set sink = 'b' where id = 3")
            .await;
        let types = |pattern: &str| vec![pattern.parse().unwrap()];
        let texts = |text: &str| vec![text.to_owned()];
        let half = Moment::Ago(Duration::from_secs(1_800));
        let none = everything;
        for (filter, expected) in [
            (none(), vec![1, 2, 3]),
            (DeadLetterFilter { sinks: texts("a"), ..none() }, vec![1, 2]),
            (DeadLetterFilter { codes: texts("REFUSED"), ..none() }, vec![2, 3]),
            (DeadLetterFilter { types: types("order.*"), ..none() }, vec![1, 2]),
            (DeadLetterFilter { before: Some(half), ..none() }, vec![2]),
            (by_id([3, 1, 99]), vec![1, 3]),
            (
                DeadLetterFilter { sinks: texts("b"), types: types("order.*"), ..none() },
                vec![],
            ),
        ] {
            let found: Vec<_> = list(&outbox, &filter).await.iter().map(|row| row.id).collect();
            assert_eq!(found, expected, "{filter:?}");
        }
        let first = outbox.database.dead_letter(1).await.unwrap().unwrap();
        assert_eq!(first.event_id, published[0].id);
        assert_eq!((first.code.as_str(), first.attempts), ("TOO_LARGE", 5));
        assert_eq!(first.position, published[0].position);
        assert!(first.payload.unwrap().contains("node/0"));
        assert_eq!(list(&outbox, &everything()).await[0].payload, None);
        assert_eq!(outbox.database.dead_letter(9).await.unwrap(), None);
        let page = outbox.database.dead_letters(&everything(), false, 2).await;
        assert_eq!(page.unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_replay_marks_what_is_dead_once() {
    on_each_postgres(async |outbox| {
        let (_, one) = scene(&outbox).await;
        let filter = DeadLetterFilter {
            codes: vec!["REFUSED".to_owned()],
            ..everything()
        };
        let planned = outbox
            .database
            .replay_dead_letters(&filter, &BTreeMap::new(), "jo", true)
            .await;
        let planned = planned.unwrap();
        assert_eq!((planned.operation, planned.sinks), (None, of_a(2)));
        assert_eq!(states(&outbox).await, ["dead", "dead", "dead"]);
        assert_eq!(record(&outbox).await, []);

        let ordered = replay(&outbox, &filter).await;
        assert_eq!(ordered.sinks, of_a(2));
        assert_eq!(
            outbox.database.head().await.unwrap().operation,
            ordered.operation.unwrap()
        );
        assert_eq!(states(&outbox).await, ["dead", "replaying", "replaying"]);
        let again = replay(&outbox, &filter).await;
        assert_eq!((again.operation, again.sinks), (None, BTreeMap::new()));
        let waiting = outbox.database.replays("a", 10).await.unwrap();
        assert_eq!(waiting.len(), 2);

        let outcomes = [(2, ReplayOutcome::Delivered)];
        let settled = outbox.database.settle_replays("a", &one, &outcomes).await;
        assert_eq!(settled.unwrap(), Owned::Yes);
        assert_eq!(
            replay(&outbox, &by_id([2])).await.operation,
            None,
            "it has arrived"
        );
        let (command, sink, _, details) = record(&outbox).await.remove(0);
        assert_eq!((command.as_str(), sink.as_deref()), ("replay", Some("a")));
        assert_eq!(details["dead_letters"], 2);
        assert_eq!(details["filter"]["codes"][0], "REFUSED");
    })
    .await;
}

#[tokio::test]
async fn what_is_discarded_is_replayed_by_nothing_but_its_id() {
    on_each_postgres(async |outbox| {
        scene(&outbox).await;
        replay(&outbox, &by_id([1])).await;
        assert_eq!(discard(&outbox, &by_id([1, 2])).await, 2);
        assert_eq!(states(&outbox).await, ["discarded", "discarded", "dead"]);
        assert!(outbox.database.replays("a", 10).await.unwrap().is_empty());
        assert_eq!(discard(&outbox, &by_id([1, 2])).await, 0);
        assert_eq!(replay(&outbox, &everything()).await.sinks, of_a(1));
        assert_eq!(replay(&outbox, &by_id([2])).await.sinks, of_a(1));
        assert_eq!(
            states(&outbox).await,
            ["discarded", "replaying", "replaying"]
        );
        let listed = outbox.database.dead_letters(&everything(), false, 10).await;
        let listed: Vec<_> = listed.unwrap().iter().map(|row| row.state).collect();
        assert_eq!(listed, [DeadLetterState::Replaying; 2]);
        let commands: Vec<_> = record(&outbox).await.into_iter().map(|row| row.0).collect();
        assert_eq!(commands, ["replay", "discard", "replay", "replay"]);
    })
    .await;
}

const SURE: Newer = Newer {
    overtaken: 0,
    unsure: false,
};

async fn newer(outbox: &Outbox) -> Newer {
    newer_of(outbox, &[("a", Filter::default())]).await
}

async fn newer_of(outbox: &Outbox, taken: &[(&str, Filter)]) -> Newer {
    let taken = taken.iter();
    let taken = taken.map(|(sink, filter)| ((*sink).to_owned(), filter.clone()));
    let planned = outbox
        .database
        .replay_dead_letters(&everything(), &taken.collect(), "jo", true)
        .await;
    planned.unwrap().newer
}

#[tokio::test]
async fn an_event_that_the_sink_does_not_take_has_overtaken_nothing() {
    on_each_postgres(async |outbox| {
        let (_, one) = scene(&outbox).await;
        let later = outbox.publish_subjects([1]).await;
        let end = outbox.head_after(later[0].position).await.end();
        assert_eq!(go(&outbox, &one, end).await, Owned::Yes);
        let of_type = |pattern: &str| Filter {
            types: vec![pattern.parse().unwrap()],
            ..Filter::default()
        };
        let unsure = Newer {
            unsure: true,
            ..SURE
        };
        let overtaken = Newer {
            overtaken: 1,
            ..SURE
        };
        for (taken, expected) in [
            (vec![("a", Filter::default())], overtaken),
            (vec![("a", of_type("*"))], overtaken),
            (vec![("a", of_type("elsewhere.*"))], SURE),
            (vec![("b", Filter::default())], unsure),
        ] {
            assert_eq!(newer_of(&outbox, &taken).await, expected, "{taken:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_order_stands_where_later_events_can_not_be_looked_at() {
    on_each_postgres(async |outbox| {
        scene(&outbox).await;
        outbox
            .run("alter table {s}.outbox rename payload to body")
            .await;
        let replaying = replay(&outbox, &everything()).await;
        assert!(replaying.operation.is_some());
        assert_eq!(
            replaying.newer,
            Newer {
                unsure: true,
                ..SURE
            }
        );
        assert_eq!(states(&outbox).await, ["replaying"; 3]);
    })
    .await;
}

#[tokio::test]
async fn an_event_of_the_same_subject_that_was_delivered_since_is_told() {
    on_each_postgres(async |outbox| {
        let (_, one) = scene(&outbox).await;
        assert_eq!(newer(&outbox).await, SURE);
        let later = outbox.publish_subjects([7, 1, 1, 0]).await;
        outbox.head_after(later[3].position).await;
        assert_eq!(newer(&outbox).await, SURE, "published and not delivered");
        assert_eq!(go(&outbox, &one, later[2].position).await, Owned::Yes);
        assert_eq!(
            newer(&outbox).await,
            Newer {
                overtaken: 1,
                ..SURE
            }
        );
        assert_eq!(go(&outbox, &one, later[3].position).await, Owned::Yes);
        assert_eq!(
            newer(&outbox).await,
            Newer {
                overtaken: 2,
                ..SURE
            }
        );
    })
    .await;
}

#[tokio::test]
async fn a_later_event_that_is_a_dead_letter_itself_has_overtaken_nothing() {
    on_each_postgres(async |outbox| {
        let (_, one) = scene(&outbox).await;
        let later = outbox.publish_subjects([1]).await;
        bury(
            &outbox,
            &one,
            &[(&later[0], "node.up", "node/1", "REFUSED")],
        )
        .await;
        assert_eq!(newer(&outbox).await, SURE);
        outbox
            .run("update {s}.outbox_dead_letters set state = 'replayed' where id > 3")
            .await;
        assert_eq!(
            newer(&outbox).await,
            Newer {
                overtaken: 1,
                ..SURE
            }
        );
    })
    .await;
}

#[tokio::test]
async fn what_can_not_be_looked_at_any_more_is_told_as_well() {
    on_each_postgres(async |outbox| {
        let (published, one) = scene(&outbox).await;
        outbox.run("delete from {s}.outbox where seq <= 2").await;
        let unsure = Newer { unsure: true, ..SURE };
        assert_eq!(newer(&outbox).await, unsure, "pruned");
        let database = &outbox.database;
        let back = SeekTarget::Beginning;
        database.seek("a", back, "jo", false).await.unwrap();
        claim(&outbox, &one).await.unwrap();
        assert_eq!(newer(&outbox).await, SURE, "the sink is before them");
        assert_eq!(
            go(&outbox, &one, published[5].position).await,
            Owned::Yes
        );
        let before = Position { seq: 0, ..published[0].position };
        outbox
            .run(&format!(
                "insert into {{s}}.outbox (txid, seq, topic, payload) values ('{}', 0, 'a.b', '{{}}')",
                before.txid
            ))
            .await;
        assert_eq!(newer(&outbox).await, SURE);
        outbox
            .run("insert into {s}.outbox (topic, payload) select 'a.b', '{}' from generate_series(1, 21000)")
            .await;
        let head = outbox.head_after_now().await;
        assert_eq!(go(&outbox, &one, head.end()).await, Owned::Yes);
        assert_eq!(newer(&outbox).await, unsure, "too much to look at");
        outbox.run("delete from {s}.outbox_cursors").await;
        assert_eq!(newer(&outbox).await, unsure, "no cursor");
    })
    .await;
}

/// C1: what is in a column of `json` can't be taken apart by the server.
#[tokio::test]
async fn looking_for_later_events_survives_what_a_payload_may_be() {
    on_each_postgres(async |outbox| {
        let (_, one) = scene(&outbox).await;
        outbox
            .run(
                r#"drop index {s}.outbox_tenant_cursor;
                   alter table {s}.outbox alter payload type json;
                   insert into {s}.outbox (topic, payload) values
                   ('a.b', '{"x":"\u0000","subject":"node/1"}'), ('a.b', '[]')"#,
            )
            .await;
        let head = outbox.head_after_now().await;
        assert_eq!(go(&outbox, &one, head.end()).await, Owned::Yes);
        assert_eq!(
            newer(&outbox).await,
            Newer {
                overtaken: 1,
                ..SURE
            }
        );
        outbox.publish(&[NewEvent::new("a.b", "t", "s")]).await;
    })
    .await;
}
