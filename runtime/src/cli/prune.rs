//! `sinks prune`: one retention pass, as a worker with the role `retention` makes it.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use outbox::{Database, MAX_COUNTED_LAG, Prunable, RETENTION_LEASE, RetentionHold};
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::CancellationToken;

use super::exit::{Failure, Status};
use super::source::Source;
use super::{database, table};
use crate::retention::{Pass, Wanted, pass_under_lease};

/// Long enough for a pass to go on while a renewal is late.
const LEASE_TTL: Duration = Duration::from_secs(30);

/// Delete what every sink has passed and what is old enough, once
#[derive(Args, Debug)]
pub(super) struct Prune {
    /// Delete nothing: count what would be deleted
    #[arg(long)]
    dry_run: bool,
}

impl Prune {
    pub(super) async fn run(&self, source: &Source, out: &mut impl Write) -> Result<(), Failure> {
        let (config, database) = database::open(source, "sinks prune").await?;
        let min_age = config.retention.min_age;
        if self.dry_run {
            let Prunable { rows, more } = database.prunable(min_age).await?;
            let least = if more { "at least " } else { "" };
            writeln!(
                out,
                "{least}{rows} events would be deleted; nothing was changed"
            )?;
        } else {
            let Pass { rows, more } = pass(&database, min_age).await?;
            let again = if more {
                "; there are more: run it again"
            } else {
                ""
            };
            writeln!(out, "deleted {rows} events{again}")?;
        }
        Ok(describe(out, database.retention_hold().await?.as_ref())?)
    }
}

async fn pass(database: &Database, min_age: Duration) -> Result<Pass, Failure> {
    let holder = format!("sinks-prune-{}", uuid::Uuid::now_v7().simple());
    let pass = Wanted {
        holder: &holder,
        lease_ttl: LEASE_TTL,
        min_age,
        deleted: &Counter::default(),
    };
    let store = Arc::new(database.clone());
    // A signal ends the process at once: what is deleted is deleted, the lease runs out.
    let deleted = Box::pin(pass_under_lease(&store, &pass, &CancellationToken::new())).await;
    match deleted? {
        Some(passed) => Ok(passed),
        None => Err(held(database).await?),
    }
}

/// Somebody else is at it, which is as good.
async fn held(database: &Database) -> Result<Failure, Failure> {
    let leases = database.lease_holders().await?;
    let lease = leases
        .into_iter()
        .find(|lease| lease.name == RETENTION_LEASE);
    let holder = lease.and_then(|lease| lease.holder);
    let message = format!(
        "{} is deleting at this moment: there is nothing to do but to wait",
        holder.as_deref().unwrap_or("another process")
    );
    Ok(Failure::new(Status::Held, message))
}

/// What is kept, and for whom.
pub(super) fn describe(out: &mut impl Write, hold: Option<&RetentionHold>) -> io::Result<()> {
    let Some(hold) = hold else {
        return writeln!(
            out,
            "retention: no sink has a cursor, so nothing is deleted"
        );
    };
    if hold.strange {
        return writeln!(
            out,
            "retention: nothing is deleted while there are positions of another cluster or another \
             history: see `sinks adopt` and docs/operate.md, After a restore"
        );
    }
    let consumer = &hold.consumer;
    let (kind, name) = match consumer.strip_prefix("sink:") {
        Some(name) => ("sink", name),
        None => ("consumer", consumer.as_str()),
    };
    let more = if hold.rows >= MAX_COUNTED_LAG {
        "+"
    } else {
        ""
    };
    let oldest = match hold.age {
        Some(age) => format!(", the oldest of them {} old", table::span(age)),
        None => String::new(),
    };
    writeln!(
        out,
        "retention: {kind} {name} is the furthest back, at {}: it keeps {}{more} events{oldest}",
        hold.position, hold.rows
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox::Position;

    fn described(hold: Option<&RetentionHold>) -> String {
        let mut out = Vec::new();
        describe(&mut out, hold).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_holds_retention_back_is_named() {
        let hold = RetentionHold {
            consumer: "sink:a".to_owned(),
            position: Position::new(7, 9),
            rows: MAX_COUNTED_LAG,
            age: Some(Duration::from_secs(7_200)),
            strange: false,
        };
        assert_eq!(
            described(Some(&hold)),
            "retention: sink a is the furthest back, at 7.9: it keeps 10000+ events, the oldest \
             of them 2h old\n"
        );
        let other = RetentionHold {
            consumer: "reader:x".to_owned(),
            rows: 3,
            age: None,
            ..hold
        };
        let shown = described(Some(&other));
        assert!(
            shown.contains("consumer reader:x") && shown.ends_with("keeps 3 events\n"),
            "{shown}"
        );
        let strange = RetentionHold {
            strange: true,
            ..hold
        };
        assert!(described(Some(&strange)).contains("sinks adopt"));
        assert!(described(None).contains("no sink has a cursor"));
    }
}
