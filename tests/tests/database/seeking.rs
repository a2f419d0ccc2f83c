//! Seeking: where it leads, and that only the cursor's owner goes there (OB-2, OB-3).

use std::time::{Duration, SystemTime};

use outbox::{
    Head, MAX_COUNTED_LAG, Moment, OperateError, Owned, Position, Published, SeekTarget, Sought,
};

use crate::fixture::{Outbox, event, on_each_postgres};
use crate::holding::{back_off, cursor, failure, go, hold, row};
use crate::operations::record;

async fn seek(outbox: &Outbox, target: SeekTarget) -> Result<Sought, OperateError> {
    outbox.database.seek("a", target, "jo", false).await
}

/// Events of single transactions, all readable, and a cursor at the third.
async fn scene(outbox: &Outbox, events: usize) -> (Vec<Published>, Head, outbox::Lease) {
    let mut published = Vec::new();
    for n in 0..events {
        published.extend(outbox.publish_subjects([n]).await);
    }
    let head = outbox.head_after(published[events - 1].position).await;
    let one = hold(outbox, "one").await;
    assert_eq!(go(outbox, &one, published[2].position).await, Owned::Yes);
    (published, head, one)
}

#[tokio::test]
async fn a_seek_is_carried_out_by_the_next_claim_and_by_nothing_else() {
    on_each_postgres(async |outbox| {
        let (published, _, one) = scene(&outbox, 5).await;
        let suspect = crate::holding::suspect(published[3].position, outbox::Stage::Comparing);
        let noted = back_off(&outbox, &one, failure(Some(suspect))).await;
        assert_eq!(noted, Owned::Yes);
        let there = published[0].position;
        let sought = seek(&outbox, SeekTarget::Position(there)).await.unwrap();
        assert_eq!((sought.from, sought.to), (published[2].position, there));
        assert_eq!((sought.rows, sought.pruned), (2, false));
        let kept = row(&outbox).await;
        assert_eq!(kept["seq"], published[2].position.seq, "only written down");

        // A delivery that was under way is settled; then the owner looks and obeys.
        assert_eq!(go(&outbox, &one, published[3].position).await, Owned::Yes);
        assert!(
            outbox
                .database
                .obedience("a")
                .await
                .unwrap()
                .unwrap()
                .seeking
        );
        let found = cursor(&outbox, &one).await;
        assert_eq!(
            (found.position, found.attempts, found.suspect),
            (there, 0, None)
        );
        let obeyed = outbox.database.obedience("a").await.unwrap().unwrap();
        assert!(!obeyed.seeking);
        assert_eq!(Some(obeyed.operation), sought.operation);
        assert_eq!(go(&outbox, &one, published[1].position).await, Owned::Yes);

        let (command, sink, by, details) = record(&outbox).await.remove(0);
        assert_eq!(
            (command.as_str(), sink.as_deref(), by.as_str()),
            ("seek", Some("a"), "jo")
        );
        assert_eq!(details["from"], published[2].position.to_string());
        assert_eq!(details["to"], there.to_string());
    })
    .await;
}

#[tokio::test]
async fn each_target_is_a_position() {
    on_each_postgres(async |outbox| {
        let (published, _, _) = scene(&outbox, 6).await;
        outbox
            .run("update {s}.outbox set created_at = '2020-01-01T00:00:00Z'::timestamptz + seq * interval '1 s'")
            .await;
        let at = |seq: i64| {
            let seconds = 1_577_836_800 + u64::try_from(seq).unwrap();
            let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            SeekTarget::Time(Moment::At(moment))
        };
        let fifth = published[4].position;
        let before_fifth = Position { seq: fifth.seq - 1, ..fifth };
        let sought = seek(&outbox, at(fifth.seq)).await.unwrap();
        assert_eq!((sought.to, sought.rows), (before_fifth, 1));
        let head = outbox.head_after_now().await;
        for target in [at(fifth.seq + 100), SeekTarget::Head] {
            let sought = seek(&outbox, target).await.unwrap();
            assert!(sought.to >= head.end() && sought.rows == 3, "{sought:?}");
        }
        let ago = SeekTarget::Time(Moment::Ago(Duration::from_secs(100 * 365 * 86_400)));
        let first = published[0].position;
        let sought = seek(&outbox, ago).await.unwrap();
        assert_eq!(sought.to, Position { seq: first.seq - 1, ..first });
        let sought = seek(&outbox, SeekTarget::Beginning).await.unwrap();
        assert_eq!((sought.to, sought.rows), (Position::BEGINNING, 3));
    })
    .await;
}

/// C12: such a time is later than any other.
#[tokio::test]
async fn a_time_that_is_no_time_does_no_harm() {
    on_each_postgres(async |outbox| {
        let (published, ..) = scene(&outbox, 4).await;
        outbox
            .run("update {s}.outbox set created_at = case when seq % 2 = 0 then '-infinity' else 'infinity' end::timestamptz")
            .await;
        let now = SeekTarget::Time(Moment::Ago(Duration::ZERO));
        let sought = seek(&outbox, now).await.unwrap();
        let first = published.iter().find(|one| one.position.seq % 2 == 1).unwrap();
        assert_eq!(sought.to.seq, first.position.seq - 1);
    })
    .await;
}

#[tokio::test]
async fn a_position_that_may_still_be_preceded_is_refused() {
    on_each_postgres(async |outbox| {
        let (..) = scene(&outbox, 3).await;
        let head = outbox.database.head().await.unwrap();
        let beyond = Position {
            txid: outbox::Txid(head.horizon.0 + 1_000_000),
            seq: 1,
        };
        let refused = seek(&outbox, SeekTarget::Position(beyond))
            .await
            .unwrap_err();
        assert!(
            matches!(refused, OperateError::BeyondHorizon { .. }),
            "{refused}"
        );
        assert!(
            refused.to_string().contains(&beyond.to_string()),
            "{refused}"
        );
        assert!(
            seek(&outbox, SeekTarget::Position(head.end()))
                .await
                .is_ok()
        );
        assert_eq!(record(&outbox).await.len(), 1);
        let refused = outbox
            .database
            .seek("b", SeekTarget::Head, "jo", false)
            .await;
        assert!(matches!(refused, Err(OperateError::NoCursor(sink)) if sink == "b"));
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    on_each_postgres(async |outbox| {
        scene(&outbox, 3).await;
        let before = row(&outbox).await;
        let planned = outbox
            .database
            .seek("a", SeekTarget::Beginning, "jo", true)
            .await;
        let planned = planned.unwrap();
        assert_eq!((planned.operation, planned.rows), (None, 3));
        assert_eq!(row(&outbox).await, before);
        assert_eq!(record(&outbox).await, []);
    })
    .await;
}

#[tokio::test]
async fn going_back_to_where_rows_were_deleted_is_told() {
    on_each_postgres(async |outbox| {
        let (published, _, one) = scene(&outbox, 4).await;
        let back = async |target| seek(&outbox, target).await.unwrap().pruned;
        let early = SeekTarget::Position(Position::new(1, 1));
        assert!(!back(early).await, "nothing was ever deleted");
        cursor(&outbox, &one).await;
        assert_eq!(go(&outbox, &one, published[2].position).await, Owned::Yes);
        let limit = published[1].position.seq;
        outbox
            .run(&format!("delete from {{s}}.outbox where seq <= {limit}"))
            .await;
        assert!(back(early).await);
        assert!(back(SeekTarget::Position(published[1].position)).await);
        assert!(
            !back(SeekTarget::Beginning).await,
            "that is the oldest that is left"
        );
        assert!(!back(SeekTarget::Head).await, "forth");
        outbox.run("truncate {s}.outbox").await;
        assert!(back(early).await);
    })
    .await;
}

#[tokio::test]
async fn counting_what_lies_between_ends_early() {
    on_each_postgres(async |outbox| {
        let (published, ..) = scene(&outbox, 3).await;
        outbox
            .run("insert into {s}.outbox (topic, payload) select 'a.b', '{}' from generate_series(1, 12000)")
            .await;
        outbox.head_after_now().await;
        let sought = seek(&outbox, SeekTarget::Head).await.unwrap();
        assert_eq!(sought.rows, MAX_COUNTED_LAG);
        assert_eq!(sought.from, published[2].position);
        outbox.publish(&[event("later")]).await;
    })
    .await;
}
