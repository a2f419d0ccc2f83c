//! Replays: dead letters on their way again, apart from the live cursor (H1).

use outbox::{Lease, Owned, Position, ReplayOutcome, Then};

use crate::fixture::{Outbox, on_each_postgres};
use crate::holding::{
    column, cursor, dead_letter, dead_letters, hold, lease, row, settle, settlement,
};

/// Three dead letters of sink `a`, and their ids.
async fn three(outbox: &Outbox) -> (Lease, Vec<i64>) {
    let one = hold(outbox, "one").await;
    let letters: Vec<_> = (1..=3)
        .map(|seq| dead_letter(Position::new(7, seq)))
        .collect();
    let all = settlement(Position::new(7, 3), letters, Then::Go);
    assert_eq!(settle(outbox, &one, &all).await, Owned::Yes);
    let ids = dead_letters(outbox).await;
    let ids = ids.iter().map(|row| row["id"].as_i64().unwrap());
    (one, ids.collect())
}

async fn order(outbox: &Outbox, which: &str) {
    outbox
        .run(&format!(
            "update {{s}}.outbox_dead_letters set state = 'replaying' where {which}"
        ))
        .await;
}

async fn waiting(outbox: &Outbox, limit: u32) -> Vec<(i64, u32)> {
    let replays = outbox.database.replays("a", limit).await.unwrap();
    let replays = replays
        .into_iter()
        .map(|replay| (replay.event.position().seq, replay.event.replay()));
    replays.collect()
}

async fn tell(outbox: &Outbox, lease: &Lease, outcomes: &[(i64, ReplayOutcome)]) -> Owned {
    let told = outbox.database.settle_replays("a", lease, outcomes).await;
    told.unwrap()
}

fn refused() -> ReplayOutcome {
    ReplayOutcome::Refused {
        code: "AGAIN".to_owned(),
        error: "still\0 too green".to_owned(),
    }
}

#[tokio::test]
async fn a_replay_is_delivered_or_dead_for_a_new_reason() {
    on_each_postgres(async |outbox| {
        let (one, ids) = three(&outbox).await;
        let before = row(&outbox).await;
        assert!(!cursor(&outbox, &one).await.replays);
        assert_eq!(waiting(&outbox, 10).await, []);
        order(&outbox, "seq > 1").await;
        assert!(cursor(&outbox, &one).await.replays);
        assert_eq!(waiting(&outbox, 1).await, [(2, 1)]);
        assert_eq!(waiting(&outbox, 10).await, [(2, 1), (3, 1)]);

        let outcomes = [(ids[1], ReplayOutcome::Delivered), (ids[2], refused())];
        assert_eq!(tell(&outbox, &one, &outcomes).await, Owned::Yes);
        let rows = dead_letters(&outbox).await;
        assert_eq!(column(&rows, "state"), ["dead", "replayed", "dead"]);
        assert_eq!(column(&rows, "code"), ["REFUSED", "REFUSED", "AGAIN"]);
        assert_eq!(rows[2]["error"], "still too green");
        assert_eq!(waiting(&outbox, 10).await, []);
        assert!(!cursor(&outbox, &one).await.replays);
        assert_eq!(row(&outbox).await, before, "the cursor is not touched");

        // Told again after an answer that was lost.
        assert_eq!(tell(&outbox, &one, &outcomes).await, Owned::Yes);
        let again = dead_letters(&outbox).await;
        assert_eq!(column(&again, "state"), ["dead", "replayed", "dead"]);
        assert_eq!(again[1], rows[1]);
        assert_eq!(again[2]["replays"], 1);

        order(&outbox, "seq = 3").await;
        assert_eq!(
            waiting(&outbox, 10).await,
            [(3, 2)],
            "it is the second time"
        );
    })
    .await;
}

/// A replay that may kill the process is given up first, and told of when it arrived.
#[tokio::test]
async fn the_last_word_on_a_replay_stands() {
    on_each_postgres(async |outbox| {
        let (one, ids) = three(&outbox).await;
        order(&outbox, "true").await;
        let given_up = [(ids[0], refused())];
        assert_eq!(tell(&outbox, &one, &given_up).await, Owned::Yes);
        assert_eq!(waiting(&outbox, 10).await, [(2, 1), (3, 1)]);
        let arrived = [(ids[0], ReplayOutcome::Delivered)];
        assert_eq!(tell(&outbox, &one, &arrived).await, Owned::Yes);
        let rows = dead_letters(&outbox).await;
        assert_eq!(
            column(&rows, "state"),
            ["replayed", "replaying", "replaying"]
        );
        assert_eq!(rows[0]["replays"], 1, "it was sent once");
    })
    .await;
}

/// It is as if it had not been given up; nothing is known to have been sent.
#[tokio::test]
async fn a_replay_that_is_postponed_waits_as_before() {
    on_each_postgres(async |outbox| {
        let (one, ids) = three(&outbox).await;
        order(&outbox, "seq < 3").await;
        let postponed = [
            (ids[0], ReplayOutcome::Postponed),
            (ids[1], ReplayOutcome::Postponed),
        ];
        assert_eq!(
            tell(&outbox, &one, &[(ids[0], refused())]).await,
            Owned::Yes
        );
        for _ in 0..2 {
            assert_eq!(tell(&outbox, &one, &postponed).await, Owned::Yes);
            assert_eq!(waiting(&outbox, 10).await, [(1, 1), (2, 1)]);
        }
        outbox
            .run("update {s}.outbox_dead_letters set state = 'discarded'")
            .await;
        assert_eq!(tell(&outbox, &one, &postponed).await, Owned::Yes);
        assert_eq!(waiting(&outbox, 10).await, []);
    })
    .await;
}

#[tokio::test]
async fn what_an_operator_discards_meanwhile_stays_discarded() {
    on_each_postgres(async |outbox| {
        let (one, ids) = three(&outbox).await;
        order(&outbox, "true").await;
        outbox
            .run("update {s}.outbox_dead_letters set state = 'discarded' where seq < 3")
            .await;
        let outcomes = [(ids[0], ReplayOutcome::Delivered), (ids[1], refused())];
        assert_eq!(tell(&outbox, &one, &outcomes).await, Owned::Yes);
        let rows = dead_letters(&outbox).await;
        assert_eq!(
            column(&rows, "state"),
            ["discarded", "discarded", "replaying"]
        );
        assert_eq!(column(&rows, "code"), ["REFUSED"; 3]);
    })
    .await;
}

/// OB-3.
#[tokio::test]
async fn an_earlier_holder_has_no_word_on_replays() {
    on_each_postgres(async |outbox| {
        let (one, ids) = three(&outbox).await;
        order(&outbox, "true").await;
        let before = dead_letters(&outbox).await;
        let two = lease(&outbox, "two").await;
        let outcomes = [(ids[0], ReplayOutcome::Delivered)];
        assert_eq!(
            tell(&outbox, &two, &outcomes).await,
            Owned::No,
            "it has not claimed the cursor"
        );
        cursor(&outbox, &two).await;
        assert_eq!(tell(&outbox, &one, &outcomes).await, Owned::No);
        assert_eq!(dead_letters(&outbox).await, before);
        assert_eq!(tell(&outbox, &two, &outcomes).await, Owned::Yes);
    })
    .await;
}

#[tokio::test]
async fn a_sink_has_no_word_on_another_sinks_dead_letters() {
    on_each_postgres(async |outbox| {
        let (one, ids) = three(&outbox).await;
        order(&outbox, "true").await;
        outbox
            .run("update {s}.outbox_dead_letters set sink = 'b' where seq = 1")
            .await;
        assert_eq!(waiting(&outbox, 10).await, [(2, 1), (3, 1)]);
        let outcomes = [(ids[0], ReplayOutcome::Delivered)];
        assert_eq!(tell(&outbox, &one, &outcomes).await, Owned::Yes);
        let rows = dead_letters(&outbox).await;
        assert_eq!(column(&rows, "state"), ["replaying"; 3]);
    })
    .await;
}
