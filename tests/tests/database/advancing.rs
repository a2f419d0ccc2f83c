//! Moving several cursors and renewing several leases with one statement each: every row on
//! its own terms, and none waits for another (OB-2, OB-3).

use std::time::Duration;

use outbox::{Advance, Database, Lease, Mark, Owned, Position, Stage, Then, sink_lease};
use sqlx::Connection;
use tokio::time::timeout;

use crate::fixture::{Outbox, on_each_postgres};
use crate::holding::{failure, settlement, suspect};

const AT: Position = Position::new(7, 9);
const LONG: Duration = Duration::from_secs(60);
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Claims the cursors of three sinks.
async fn three(database: &Database) -> Vec<Lease> {
    let mut leases = Vec::new();
    for sink in NAMES {
        let lease = database.acquire_lease(&sink_lease(sink), "one", LONG).await;
        let lease = lease.unwrap().unwrap();
        let claimed = database.claim(sink, &lease, Position::BEGINNING).await;
        assert!(claimed.unwrap().is_some());
        leases.push(lease);
    }
    leases
}

fn moves(leases: &[Lease], up_to: Position) -> Vec<Advance> {
    let moves = NAMES.iter().zip(leases).map(|(sink, lease)| Advance {
        sink: (*sink).to_owned(),
        token: lease.token,
        up_to,
    });
    moves.collect()
}

/// Where the three cursors are.
async fn positions(outbox: &Outbox) -> Vec<Position> {
    let mut connection = outbox.application().await;
    let sql = "select txid::text, seq from {s}.outbox_cursors order by consumer";
    let rows: Vec<(String, i64)> = sqlx::query_as(outbox.sql(sql))
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let position = |(txid, seq): (String, i64)| Position::new(txid.parse().unwrap(), seq);
    rows.into_iter().map(position).collect()
}

#[tokio::test]
async fn cursors_move_together_and_each_only_forward() {
    on_each_postgres(async |outbox| {
        let leases = three(&outbox.database).await;
        let mut moves = moves(&leases, AT);
        let moved = outbox.database.advance(&moves).await.unwrap();
        assert_eq!(moved, [true, true, true]);
        assert_eq!(positions(&outbox).await, [AT; 3]);
        let again = outbox.database.advance(&moves).await.unwrap();
        assert_eq!(again, [false; 3], "nothing is left to do");
        let (back, forth) = (Position::new(7, 8), Position::new(8, 1));
        (moves[0].up_to, moves[1].up_to) = (back, forth);
        let moved = outbox.database.advance(&moves).await.unwrap();
        assert_eq!(moved, [false, true, false]);
        assert_eq!(positions(&outbox).await, [AT, forth, AT]);
        assert_eq!(outbox.database.advance(&[]).await.unwrap(), [false; 0]);
    })
    .await;
}

/// OB-3, and what the server has not reached.
#[tokio::test]
async fn a_cursor_of_somebody_newer_and_one_beyond_the_horizon_do_not_move() {
    on_each_postgres(async |outbox| {
        let leases = three(&outbox.database).await;
        let mut moves = moves(&leases, AT);
        moves[0].token -= 1;
        moves[1].up_to = Position::new(1 << 40, 1);
        let moved = outbox.database.advance(&moves).await.unwrap();
        assert_eq!(moved, [false, false, true]);
        let untouched = Position::BEGINNING;
        assert_eq!(positions(&outbox).await, [untouched, untouched, AT]);
    })
    .await;
}

#[tokio::test]
async fn a_cursor_with_something_to_forget_is_left_to_a_settlement() {
    on_each_postgres(async |outbox| {
        let leases = three(&outbox.database).await;
        let database = &outbox.database;
        let mark = |hunt| Mark {
            end: Position::new(3, 1),
            hunt,
            suspect: None,
        };
        let marked = database.mark("a", &leases[0], &mark(Some(AT))).await;
        assert_eq!(marked.unwrap(), Owned::Yes);
        let marked = database.mark("b", &leases[1], &mark(None)).await;
        assert_eq!(marked.unwrap(), Owned::Yes);
        let on_trial = suspect(Position::new(3, 1), Stage::Alone);
        let failed = settlement(None, [], Then::BackOff(failure(Some(on_trial))));
        let settled = database.settle("c", &leases[2], &failed).await;
        assert_eq!(settled.unwrap(), Owned::Yes);
        let moves = moves(&leases, AT);
        assert_eq!(database.advance(&moves).await.unwrap(), [false; 3]);
        for (sink, lease) in NAMES.iter().zip(&leases) {
            let settlement = settlement(AT, [], Then::Go);
            let settled = database.settle(sink, lease, &settlement);
            assert_eq!(settled.await.unwrap(), Owned::Yes);
        }
        let further = self::moves(&leases, Position::new(9, 1));
        assert_eq!(database.advance(&further).await.unwrap(), [true; 3]);
    })
    .await;
}

#[tokio::test]
async fn a_row_that_somebody_has_locked_keeps_back_only_itself() {
    on_each_postgres(async |outbox| {
        let leases = three(&outbox.database).await;
        let mut other = outbox.application().await;
        let mut lock = other.begin().await.unwrap();
        sqlx::raw_sql(outbox.sql(
            "select from {s}.outbox_cursors where consumer = 'sink:b' for update;
             select from {s}.leases where name like '%:b' for update",
        ))
        .execute(&mut *lock)
        .await
        .unwrap();
        let moves = moves(&leases, AT);
        let moving = timeout(Duration::from_secs(5), outbox.database.advance(&moves));
        assert_eq!(moving.await.unwrap().unwrap(), [true, false, true]);
        let renewing = outbox.database.renew_leases(&leases, LONG);
        let renewing = timeout(Duration::from_secs(5), renewing);
        assert_eq!(renewing.await.unwrap().unwrap(), [true, false, true]);
        lock.rollback().await.unwrap();
        let moved = outbox.database.advance(&moves).await.unwrap();
        assert_eq!(moved, [false, true, false]);
    })
    .await;
}

#[tokio::test]
async fn leases_are_renewed_together_and_lost_apart() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        let leases = three(database).await;
        outbox
            .run("update {s}.leases set expires_at = {s}.compute_now() + '1 s', abandoned = true")
            .await;
        database.release_lease(&leases[0]).await.unwrap();
        outbox
            .run("update {s}.leases set token = token + 1 where name like '%:b'")
            .await;
        let renewed = database.renew_leases(&leases, LONG).await.unwrap();
        assert_eq!(renewed, [false, false, true]);
        let holders = database.lease_holders().await.unwrap();
        let left: Vec<_> = holders.iter().map(|it| it.expires_in).collect();
        assert_eq!(left[0], None);
        assert!(left[1].unwrap() < LONG / 2 && left[2].unwrap() > LONG / 2);
        let taken = database
            .acquire_lease(&sink_lease("c"), "one", LONG)
            .await
            .unwrap()
            .unwrap();
        assert!(!taken.abandoned, "who renews knows that it was");
    })
    .await;
}
