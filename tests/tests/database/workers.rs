//! The census: who is alive, what each could run and what it holds.

use std::time::Duration;

use outbox::{Member, RETENTION_LEASE, sink_lease};
use tokio::time::sleep;

use crate::fixture::{Outbox, on_each_postgres};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn member(holder: &str, sinks: &[&str], held: &[&str]) -> Member {
    Member {
        holder: holder.to_owned(),
        sinks: names(sinks),
        held: names(held),
    }
}

async fn census(outbox: &Outbox, holder: &str, sinks: &[&str], ttl: Duration) -> Vec<Member> {
    let members = outbox.database.census(holder, &names(sinks), ttl).await;
    members.unwrap()
}

#[tokio::test]
async fn the_census_shows_who_is_alive_and_what_each_holds() {
    on_each_postgres(async |outbox| {
        let database = &outbox.database;
        for (name, holder, ttl) in [
            (sink_lease("x"), "b", LONG),
            (sink_lease("m"), "b", LONG),
            (sink_lease("gone"), "b", SHORT),
            (sink_lease("q"), "Z", LONG),
            (RETENTION_LEASE.to_owned(), "b", LONG),
            (sink_lease("other"), "somebody who is not counted", LONG),
        ] {
            let lease = database.acquire_lease(&name, holder, ttl).await.unwrap();
            lease.unwrap();
        }
        sleep(SHORT * 2).await;
        let alone = census(&outbox, "b", &["x", "m", "q"], LONG).await;
        assert_eq!(alone, [member("b", &["x", "m", "q"], &["m", "x"])]);
        let both = census(&outbox, "Z", &["q"], SHORT).await;
        let z = member("Z", &["q"], &["q"]);
        assert_eq!(both, [z, alone[0].clone()], "in the order of their bytes");
        sleep(SHORT * 2).await;
        let changed = census(&outbox, "b", &[], LONG).await;
        assert_eq!(changed, [member("b", &[], &["m", "x"])], "Z has expired");
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_leaves_is_not_counted() {
    on_each_postgres(async |outbox| {
        census(&outbox, "a", &["x"], LONG).await;
        outbox.database.leave("a").await.unwrap();
        outbox.database.leave("nobody").await.unwrap();
        let members = census(&outbox, "b", &["x"], LONG).await;
        assert_eq!(members, [member("b", &["x"], &[])]);
    })
    .await;
}

#[tokio::test]
async fn workers_that_ended_without_a_word_are_cleared_away_after_a_day() {
    on_each_postgres(async |outbox| {
        for holder in ["a", "b", "c"] {
            census(&outbox, holder, &[], LONG).await;
        }
        outbox
            .run(
                "update {s}.outbox_workers set expires_at = now() - interval '23 h'
                     where holder = 'a';
                 update {s}.outbox_workers set expires_at = now() - interval '25 h'
                     where holder in ('b', 'c')",
            )
            .await;
        census(&outbox, "c", &[], LONG).await;
        let mut application = outbox.application().await;
        let sql = outbox.sql("select holder from {s}.outbox_workers order by holder");
        let left: Vec<(String,)> = sqlx::query_as(sql)
            .fetch_all(&mut application)
            .await
            .unwrap();
        let left: Vec<_> = left.iter().map(|(holder,)| holder.as_str()).collect();
        assert_eq!(left, ["a", "c"]);
    })
    .await;
}
