//! What a cursor remembers for destinations that store a position of their own.

use outbox::SeekTarget;
use outbox::{Owned, Position, Settlement, Then};

use crate::fixture::{Outbox, on_each_postgres};
use crate::holding::{cursor, failure, hold, lease, settle};

/// Settles up to a position, with what was delivered by it.
async fn delivered(
    outbox: &Outbox,
    lease: &outbox::Lease,
    up_to: Option<Position>,
    delivered: Position,
    then: Then,
) -> Owned {
    let settlement = Settlement {
        up_to,
        delivered: Some(delivered),
        dead_letters: Vec::new(),
        then,
    };
    settle(outbox, lease, &settlement).await
}

#[tokio::test]
async fn each_outbox_has_a_flow_of_its_own() {
    on_each_postgres(async |outbox| {
        let ours = cursor(&outbox, &hold(&outbox, "one").await).await.flow;
        let again = cursor(&outbox, &lease(&outbox, "two").await).await.flow;
        assert_eq!(ours, again, "whoever asks");
        assert_eq!(ours.generation(), 0, "it was never sent anywhere");
        let legal = |c: char| c.is_ascii_digit() || c == '/';
        assert!(ours.origin().chars().all(legal), "{}", ours.origin());

        let other = Outbox::new(outbox.version).await;
        let theirs = cursor(&other, &hold(&other, "one").await).await.flow;
        assert_ne!(
            ours.origin(),
            theirs.origin(),
            "a database of the same cluster"
        );
    })
    .await;
}

#[tokio::test]
async fn an_order_of_where_to_go_on_begins_a_new_generation() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        let before = cursor(&outbox, &one).await;
        let here = Position::new(2, 1);
        let noted = delivered(&outbox, &one, Some(here), here, Then::Go).await;
        assert_eq!(noted, Owned::Yes);
        assert_eq!(
            cursor(&outbox, &one).await.flow,
            before.flow,
            "a delivery does not"
        );

        let seek = || {
            outbox
                .database
                .seek("a", SeekTarget::Beginning, "jo", false)
        };
        seek().await.unwrap();
        let first = cursor(&outbox, &one).await;
        assert_eq!(first.flow.origin(), before.flow.origin());
        assert!(
            first.flow.generation() > 1_700_000_000_000_000,
            "microseconds since 1970"
        );
        assert_eq!(
            first.delivered, None,
            "what was delivered before counts no more"
        );

        // Also where the clock has gone back since.
        outbox
            .run("update {s}.outbox_cursors set generation = 9000000000000000000")
            .await;
        seek().await.unwrap();
        let second = cursor(&outbox, &one).await.flow.generation();
        assert_eq!(second, 9_000_000_000_000_000_001);
    })
    .await;
}

#[tokio::test]
async fn a_sink_that_was_forgotten_begins_a_new_generation() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        outbox.database.release_lease(&one).await.unwrap();
        outbox.database.forget("a", "jo", false).await.unwrap();
        let again = cursor(&outbox, &lease(&outbox, "two").await).await;
        assert!(again.flow.generation() > 1_700_000_000_000_000);
    })
    .await;
}

#[tokio::test]
async fn what_was_delivered_is_kept_with_every_settlement_and_never_less() {
    on_each_postgres(async |outbox| {
        let one = hold(&outbox, "one").await;
        assert_eq!(cursor(&outbox, &one).await.delivered, None);
        let (second, fourth) = (Position::new(2, 2), Position::new(2, 4));
        let all = delivered(&outbox, &one, Some(fourth), fourth, Then::Go).await;
        assert_eq!(all, Owned::Yes);
        let failed = Then::BackOff(failure(None));
        assert_eq!(
            delivered(&outbox, &one, None, second, failed).await,
            Owned::Yes
        );
        assert_eq!(cursor(&outbox, &one).await.delivered, Some(fourth));

        let two = hold(&outbox, "two").await;
        let ninth = Position::new(2, 9);
        let late = delivered(&outbox, &one, Some(ninth), ninth, Then::Go).await;
        assert_eq!(late, Owned::No, "by an owner that is none any more");
        assert_eq!(cursor(&outbox, &two).await.delivered, Some(fourth));
    })
    .await;
}
