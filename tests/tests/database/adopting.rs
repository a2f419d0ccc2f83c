//! A dump in a new cluster: nothing is lost, nothing is skipped, and nothing that was
//! delivered before is sent again (A23).

use std::time::Duration;

use outbox::{Adopted, Event, Filter, OperateError, Origin, Owned, PageRequest, Position, adopt};
use sqlx::Connection;
use tokio::time::timeout;

use crate::fixture::{Outbox, event, on_each_postgres, subjects};
use crate::holding::{back_off, cursor, failure, go, hold, mark, row};
use crate::operations::record;

/// Puts a sink's cursor where it was in the cluster that the dump is from. What it was
/// saved after is as old as the dump.
async fn restore_cursor(outbox: &Outbox, sink: &str, position: Position) {
    outbox
        .run(&format!(
            "insert into {{s}}.outbox_cursors
                 (stream, consumer, txid, seq, token, system_identifier, moved_at)
             values ('outbox', 'sink:{sink}', '{}', {}, 7, 1, now() - interval '1 day')
             on conflict (stream, consumer) do update
             set txid = excluded.txid, seq = excluded.seq, moved_at = excluded.moved_at,
                 system_identifier = excluded.system_identifier",
            position.txid, position.seq
        ))
        .await;
}

/// Restores rows, in one transaction as a dump does. Their subjects are their seqs.
async fn restore(outbox: &Outbox, rows: &[(u64, i64)]) {
    let rows: Vec<_> = rows
        .iter()
        .map(|(txid, seq)| {
            format!(
                "('{txid}', {seq}, 'node.up', '{{\"id\":\"old_{seq}\",\"subject\":\"{seq}\"}}', \
                 now() - interval '2 days')"
            )
        })
        .collect();
    outbox
        .run(&format!(
            "insert into {{s}}.outbox (txid, seq, topic, payload, created_at) values {};
             select setval(pg_get_serial_sequence('{{s}}.outbox', 'seq'), max(seq)) from {{s}}.outbox",
            rows.join(", ")
        ))
        .await;
}

async fn adopted(outbox: &Outbox) -> Adopted {
    let adopted = adopt(&outbox.settings, "jo", false).await.unwrap();
    adopted.expect("there is something to adopt")
}

/// What sink `a` would be given from here on, by subject.
async fn still_to_come(outbox: &Outbox) -> Vec<String> {
    let one = hold(outbox, "one").await;
    let cursor = cursor(outbox, &one).await;
    assert_eq!(cursor.origin, Origin::Here);
    outbox.database.release_lease(&one).await.unwrap();
    let head = outbox.head_after_now().await;
    let mut reader = outbox.reader(&Filter::default()).await;
    let request = PageRequest {
        after: cursor.position,
        horizon: head.horizon,
        max_events: 1_000,
        max_bytes: 1 << 20,
    };
    let page = reader.read(request).await.unwrap();
    let names = subjects(&page.events);
    names.into_iter().map(str::to_owned).collect()
}

/// All events in order, by subject.
async fn everything(outbox: &Outbox) -> Vec<Event> {
    let head = outbox.head_after_now().await;
    outbox.read_all(&Filter::default(), 100, head.horizon).await
}

const FAR: u64 = 90_000_000_000;

#[tokio::test]
async fn a_dump_from_a_cluster_that_was_further_goes_on_where_it_was() {
    on_each_postgres(async |outbox| {
        restore(
            &outbox,
            &[(FAR, 12), (FAR, 13), (FAR + 7, 11), (FAR + 9, 15)],
        )
        .await;
        restore_cursor(&outbox, "a", Position::new(FAR, 13)).await;
        restore_cursor(&outbox, "b", Position::new(FAR + 100, 1)).await;
        restore_cursor(&outbox, "c", Position::new(FAR - 1, i64::MAX)).await;
        // The application goes on before anybody has noticed.
        outbox.publish_subjects([1, 2]).await;
        let one = hold(&outbox, "one").await;
        assert_eq!(cursor(&outbox, &one).await.origin, Origin::OtherCluster);
        outbox.database.release_lease(&one).await.unwrap();

        let adopted = adopted(&outbox).await;
        let waiting: Vec<_> = adopted
            .cursors
            .iter()
            .map(|cursor| (cursor.consumer.as_str(), cursor.waiting))
            .collect();
        assert_eq!(waiting, [("sink:a", 4), ("sink:b", 2), ("sink:c", 6)]);
        assert_eq!(adopted.rows, 6);
        assert_eq!(
            still_to_come(&outbox).await,
            ["11", "15", "node/1", "node/2"]
        );
        let all = everything(&outbox).await;
        assert_eq!(subjects(&all), ["12", "13", "11", "15", "node/1", "node/2"]);

        let (command, sink, by, details) = record(&outbox).await.remove(0);
        assert_eq!((command.as_str(), sink, by.as_str()), ("adopt", None, "jo"));
        assert_eq!(details["rows"], 6);
        assert_eq!(details["cursors"]["sink:a"]["from"], format!("{FAR}.13"));
        outbox.publish_subjects([3]).await;
        assert_eq!(still_to_come(&outbox).await.last().unwrap(), "node/3");
        assert_eq!(
            adopt(&outbox.settings, "jo", false).await.unwrap(),
            None,
            "all is done"
        );
    })
    .await;
}

/// What was published in a savepoint was written under another number than its own.
#[tokio::test]
async fn what_was_published_here_in_a_savepoint_is_not_taken_for_delivered() {
    on_each_postgres(async |outbox| {
        restore(&outbox, &[(FAR, 12)]).await;
        restore_cursor(&outbox, "a", Position::new(FAR, 12)).await;
        let mut application = outbox.application().await;
        let mut outer = application.begin().await.unwrap();
        for n in 0..3 {
            let mut inner = outer.begin().await.unwrap();
            let event = crate::fixture::event(&format!("in/{n}"));
            outbox.publisher().publish(&mut inner, event).await.unwrap();
            inner.commit().await.unwrap();
        }
        outer.commit().await.unwrap();
        adopted(&outbox).await;
        assert_eq!(still_to_come(&outbox).await, ["in/0", "in/1", "in/2"]);
        assert_eq!(
            subjects(&everything(&outbox).await),
            ["12", "in/0", "in/1", "in/2"]
        );
    })
    .await;
}

#[tokio::test]
async fn a_dump_from_a_cluster_that_was_less_far_goes_on_where_it_was() {
    on_each_postgres(async |outbox| {
        restore(&outbox, &[(3, 12), (3, 13), (4, 11)]).await;
        restore_cursor(&outbox, "a", Position::new(3, 12)).await;
        outbox.publish_subjects([1]).await;
        adopted(&outbox).await;
        assert_eq!(still_to_come(&outbox).await, ["13", "11", "node/1"]);
        let all = everything(&outbox).await;
        assert_eq!(subjects(&all), ["12", "13", "11", "node/1"]);
    })
    .await;
}

/// The cursor's position is one that the application has reached and passed here.
#[tokio::test]
async fn what_is_published_here_at_a_position_that_an_old_cursor_has_passed_is_delivered() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish_subjects([1, 2, 3]).await;
        restore_cursor(&outbox, "a", published[1].position).await;
        adopted(&outbox).await;
        let expected = ["node/1", "node/2", "node/3"];
        assert_eq!(still_to_come(&outbox).await, expected);
    })
    .await;
}

/// Transaction ids on both sides of the one that restored them.
#[tokio::test]
async fn a_dump_that_straddles_the_present_keeps_its_order() {
    on_each_postgres(async |outbox| {
        let now = outbox.database.head().await.unwrap().horizon.0;
        let (low, high) = (now - 50, now + 100_000);
        restore(&outbox, &[(low, 21), (low, 22), (high, 20), (high, 23)]).await;
        restore_cursor(&outbox, "a", Position::new(low, 21)).await;
        outbox.publish_subjects([1]).await;
        adopted(&outbox).await;
        assert_eq!(still_to_come(&outbox).await, ["22", "20", "23", "node/1"]);
        let all = everything(&outbox).await;
        assert_eq!(subjects(&all), ["21", "22", "20", "23", "node/1"]);
    })
    .await;
}

/// The present has gone past what the dump brought before anybody has noticed.
#[tokio::test]
async fn a_dump_that_this_cluster_has_caught_up_with_keeps_its_place() {
    on_each_postgres(async |outbox| {
        let high = outbox.database.head().await.unwrap().horizon.0 + 5_000;
        restore(&outbox, &[(high, 21), (high, 22)]).await;
        restore_cursor(&outbox, "a", Position::new(high, 21)).await;
        outbox.publish_subjects([1]).await;
        // Each round takes a transaction id, as what is undone does as well.
        outbox
            .run(
                "create table {s}.spent (n int);
                  do $$ begin
                      for n in 1..6000 loop
                          begin
                              insert into {s}.spent values (n);
                          exception when others then
                          end;
                      end loop;
                  end $$",
            )
            .await;
        outbox.publish_subjects([2]).await;
        assert!(
            outbox.head_after_now().await.horizon.0 > high,
            "it was caught up with"
        );
        adopted(&outbox).await;
        assert_eq!(still_to_come(&outbox).await, ["22", "node/1", "node/2"]);
        let all = everything(&outbox).await;
        assert_eq!(subjects(&all), ["21", "22", "node/1", "node/2"]);
    })
    .await;
}

/// A new sink's cursor is of this cluster, and it can't have seen what nobody can read.
#[tokio::test]
async fn a_cursor_of_this_cluster_skips_nothing_that_the_dump_brought() {
    on_each_postgres(async |outbox| {
        restore(&outbox, &[(FAR, 12)]).await;
        let published = outbox.publish_subjects([1]).await;
        outbox.head_after(published[0].position).await;
        let one = hold(&outbox, "one").await;
        assert_eq!(cursor(&outbox, &one).await.origin, Origin::ForeignEvents);
        assert_eq!(go(&outbox, &one, published[0].position).await, Owned::Yes);
        outbox.database.release_lease(&one).await.unwrap();
        adopted(&outbox).await;
        assert_eq!(
            still_to_come(&outbox).await,
            ["12", "node/1"],
            "twice rather than never"
        );
    })
    .await;
}

/// A transaction that runs already may publish later, under a number that is given out.
#[tokio::test]
async fn what_an_open_transaction_publishes_after_the_adoption_comes_after_it() {
    on_each_postgres(async |outbox| {
        restore(&outbox, &[(FAR, 12), (FAR, 13)]).await;
        restore_cursor(&outbox, "a", Position::new(FAR, 13)).await;
        let mut application = outbox.application().await;
        let mut open = application.begin().await.unwrap();
        sqlx::raw_sql("select pg_current_xact_id()")
            .execute(&mut *open)
            .await
            .unwrap();
        let adopted = adopted(&outbox).await;
        let event = crate::fixture::event("late");
        let late = outbox.publisher().publish(&mut open, event).await.unwrap();
        open.commit().await.unwrap();
        assert!(late.position > adopted.cursors[0].to);
        assert_eq!(still_to_come(&outbox).await, ["late"]);
    })
    .await;
}

#[tokio::test]
async fn an_adoption_waits_for_whoever_is_publishing() {
    on_each_postgres(async |outbox| {
        restore(&outbox, &[(FAR, 12)]).await;
        restore_cursor(&outbox, "a", Position::new(FAR, 12)).await;
        let mut application = outbox.application().await;
        let mut open = application.begin().await.unwrap();
        let event = crate::fixture::event("open");
        let publisher = outbox.publisher();
        publisher.publish(&mut open, event).await.unwrap();
        let (adopted, ()) = tokio::join!(adopted(&outbox), async {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            open.commit().await.unwrap();
        });
        assert_eq!((adopted.rows, adopted.cursors[0].waiting), (2, 1));
        assert_eq!(still_to_come(&outbox).await, ["open"]);
    })
    .await;
}

/// A number is drawn for each row that was rolled back, too.
#[tokio::test]
async fn no_number_is_given_twice() {
    on_each_postgres(async |outbox| {
        restore(&outbox, &[(FAR, 12), (FAR, 13)]).await;
        restore_cursor(&outbox, "a", Position::new(FAR, 12)).await;
        outbox.run("select nextval(pg_get_serial_sequence('{s}.outbox', 'seq')) from generate_series(1, 50)").await;
        adopted(&outbox).await;
        outbox.publish_subjects([1]).await;
        let seqs: Vec<_> = everything(&outbox).await.iter().map(|event| event.position().seq).collect();
        assert!(seqs[0] > 63 && seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    })
    .await;
}

#[tokio::test]
async fn what_the_old_cluster_was_in_the_middle_of_is_forgotten() {
    on_each_postgres(async |outbox| {
        let published = outbox.publish_subjects(0..4).await;
        outbox.head_after(published[3].position).await;
        let one = hold(&outbox, "one").await;
        let suspect = crate::holding::suspect(published[1].position, outbox::Stage::Alone);
        let marked = outbox::Mark {
            end: published[2].position,
            hunt: Some(published[3].position),
            suspect: Some(suspect.clone()),
        };
        assert_eq!(mark(&outbox, &one, &marked).await, Owned::Yes);
        let noted = back_off(&outbox, &one, failure(Some(suspect))).await;
        assert_eq!(noted, Owned::Yes);
        let seek = outbox::SeekTarget::Beginning;
        outbox.database.seek("a", seek, "jo", false).await.unwrap();
        outbox.database.pause("a", None, "jo").await.unwrap();
        outbox
            .run("update {s}.outbox_cursors set system_identifier = 1")
            .await;

        let refused = adopt(&outbox.settings, "jo", false).await.unwrap_err();
        assert!(
            matches!(&refused, OperateError::Held(held) if held == "a (by one)"),
            "{refused}"
        );
        outbox.database.release_lease(&one).await.unwrap();
        adopted(&outbox).await;
        let kept = row(&outbox).await;
        let cleared = kept.as_object().unwrap().iter().filter(|(name, value)| {
            let of_trial = [
                "suspect", "probe", "in_hand", "hunt", "seek", "next", "last",
            ];
            of_trial.iter().any(|part| name.starts_with(part)) && !value.is_null()
        });
        assert_eq!(cleared.count(), 0, "{kept}");
        assert_eq!(
            (&kept["attempts"], &kept["delivering"]),
            (&0.into(), &false.into())
        );
        assert!(!kept["paused_at"].is_null(), "a pause is an operator's");
        // Whoever held it before is fenced off, also with the position it had in mind.
        let end = outbox.database.head().await.unwrap().end();
        assert_eq!(go(&outbox, &one, end).await, Owned::No);
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_adopts_nothing_and_a_sound_database_needs_nothing() {
    on_each_postgres(async |outbox| {
        outbox.publish_subjects([1]).await;
        hold(&outbox, "one").await;
        let nothing = adopt(&outbox.settings, "jo", false).await.unwrap();
        assert_eq!(nothing, None, "and no worker has to stop for that answer");
        outbox.run("update {s}.leases set expires_at = now()").await;
        restore_cursor(&outbox, "a", Position::new(FAR, 1)).await;
        let before = (row(&outbox).await, everything(&outbox).await.len());
        let mut application = outbox.application().await;
        let mut open = application.begin().await.unwrap();
        let publisher = outbox.publisher();
        publisher.publish(&mut open, event("s")).await.unwrap();
        let planning = adopt(&outbox.settings, "jo", true);
        let planned = timeout(Duration::from_secs(20), planning).await;
        let planned = planned.expect("it waits for no publisher");
        open.rollback().await.unwrap();
        let planned = planned.unwrap().unwrap();
        assert_eq!((planned.operation, planned.rows), (None, 1));
        assert_eq!(
            (row(&outbox).await, everything(&outbox).await.len()),
            before
        );
        assert_eq!(record(&outbox).await, []);
    })
    .await;
}
