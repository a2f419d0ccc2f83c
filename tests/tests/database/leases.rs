//! Leases: one holder at a time, and a token that only grows.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use outbox::{ConnectSettings, Database, Owned};
use sqlx::Connection;

use crate::fixture::on_each_postgres;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_lease_has_one_holder_until_it_expires_or_is_released() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        let a = database
            .acquire_lease("x", "a", LONG)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(database.acquire_lease("x", "b", LONG).await.unwrap(), None);
        assert_eq!(database.renew_lease(&a, SHORT).await.unwrap(), Owned::Yes);
        sleep(SHORT * 2).await;
        let b = database
            .acquire_lease("x", "b", LONG)
            .await
            .unwrap()
            .unwrap();
        assert!(b.token > a.token);
        assert_eq!(database.renew_lease(&a, LONG).await.unwrap(), Owned::No);
        database.release_lease(&a).await.unwrap();
        assert_eq!(
            database.acquire_lease("x", "a", LONG).await.unwrap(),
            None,
            "b has it still"
        );
        database.release_lease(&b).await.unwrap();
        assert_eq!(database.renew_lease(&b, LONG).await.unwrap(), Owned::No);
        let c = database
            .acquire_lease("x", "c", LONG)
            .await
            .unwrap()
            .unwrap();
        assert!(c.token > b.token);
        let again = database
            .acquire_lease("x", "c", LONG)
            .await
            .unwrap()
            .unwrap();
        assert!(
            again.token > c.token,
            "whoever takes it again is somebody new"
        );
        assert_eq!(database.renew_lease(&c, LONG).await.unwrap(), Owned::No);
    })
    .await;
}

#[tokio::test]
async fn of_many_that_ask_at_once_one_gets_the_lease() {
    on_each_postgres(async |outbox| {
        for round in 1..=20i64 {
            let ask = |holder| Box::pin(outbox.database.acquire_lease("x", holder, LONG));
            let asked = tokio::join!(ask("a"), ask("b"), ask("c"), ask("d"), ask("e"));
            let asked = [asked.0, asked.1, asked.2, asked.3, asked.4];
            let got: Vec<_> = asked.into_iter().filter_map(Result::unwrap).collect();
            assert_eq!(got.len(), 1, "{got:?}");
            assert_eq!(got[0].token, round);
            outbox.database.release_lease(&got[0]).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn holders_are_listed_with_what_is_left() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        database
            .acquire_lease("a", "one", LONG)
            .await
            .unwrap()
            .unwrap();
        let b = database
            .acquire_lease("b", "two", LONG)
            .await
            .unwrap()
            .unwrap();
        database.release_lease(&b).await.unwrap();
        let holders = database.lease_holders().await.unwrap();
        assert_eq!(holders[0].holder.as_deref(), Some("one"));
        assert!(holders[0].expires_in.unwrap() > LONG / 2);
        assert_eq!(
            (holders[1].holder.as_deref(), holders[1].expires_in),
            (None, None)
        );
    })
    .await;
}

#[tokio::test]
async fn a_lease_does_not_wait_for_a_connection_behind_reads() {
    on_each_postgres(async |outbox| {
        let settings = ConnectSettings {
            max_connections: 1,
            connect_timeout: Duration::from_secs(2),
            ..outbox.settings.clone()
        };
        let database = Database::connect(&settings).await.unwrap();
        let mut application = outbox.application().await;
        let mut transaction = application.begin().await.unwrap();
        sqlx::raw_sql(outbox.sql("lock table {s}.outbox"))
            .execute(&mut *transaction)
            .await
            .unwrap();
        let read = database.head();
        tokio::pin!(read);
        assert!(timeout(SHORT * 4, &mut read).await.is_err(), "it waits");
        let lease = database.acquire_lease("x", "a", LONG).await.unwrap();
        let lease = lease.unwrap();
        assert_eq!(
            database.renew_lease(&lease, LONG).await.unwrap(),
            Owned::Yes
        );
        database.release_lease(&lease).await.unwrap();
        transaction.rollback().await.unwrap();
        read.await.unwrap();
    })
    .await;
}

/// H6: a holder that let its lease run out may have died of what it had in hand.
#[tokio::test]
async fn a_lease_that_another_let_run_out_is_abandoned() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        let take = async |holder| {
            outbox
                .run("update {s}.leases set expires_at = {s}.compute_now()")
                .await;
            let taken = database.acquire_lease("x", holder, LONG).await.unwrap();
            taken.unwrap()
        };
        assert!(!take("a").await.abandoned, "nobody had it");
        let again = take("a").await;
        assert!(!again.abandoned, "it was its own");
        database.release_lease(&again).await.unwrap();
        assert!(!take("b").await.abandoned, "it was released");
        assert!(take("c").await.abandoned);
        // The answer was lost, and it asks again.
        let again = take("c").await;
        assert!(again.abandoned);
        assert_eq!(
            database.renew_lease(&again, LONG).await.unwrap(),
            Owned::Yes
        );
        let again = take("c").await;
        assert!(!again.abandoned, "it knows by now");
        database.release_lease(&again).await.unwrap();
        assert!(!take("d").await.abandoned);
    })
    .await;
}
