//! Publishes sample events the way an application does: from several connections, one
//! to ten events in a transaction. Some transactions are rolled back, and one connection
//! keeps its transactions open for a second or two, so that they overlap many others and
//! hold the horizon back.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use outbox::{NewEvent, PublishError, publish_many};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::DevError;
use super::ledger::{CompactId, Ledger, Outcome};
use super::sample::{Sample, SampleEvent};

/// Connections that commit at once. One more takes its time.
const STEADY: u8 = 4;
/// Share of the transactions that are rolled back, in percent.
const ROLLED_BACK_PERCENT: u8 = 5;
/// The patient connection's part of the events: at most so many a second, since it
/// holds few in a long time.
const PATIENT_RATE: f64 = 5.0;
const MOST_EVENTS: usize = 10;
/// What a publisher that fell behind may catch up with.
const CATCH_UP: Duration = Duration::from_secs(1);
const SEED: u64 = 0x0b0e;

/// What all publishers share.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// The database.
    pub(super) url: String,
    /// Events a second, all connections together.
    pub(super) rate: NonZeroU32,
    /// Where they write down what they did.
    pub(super) ledger: Arc<Ledger>,
    /// Ends the load. Open transactions are brought to their end first.
    pub(super) stop: CancellationToken,
}

impl Load {
    /// Publishes until told to stop.
    ///
    /// # Errors
    /// The first failure of the database ends all publishers.
    pub(super) async fn run(self) -> Result<(), DevError> {
        let rate = f64::from(self.rate.get());
        let patient_rate = (rate / f64::from(STEADY + 1)).min(PATIENT_RATE);
        let steady_rate = (rate - patient_rate) / f64::from(STEADY);
        let mut publishers = JoinSet::new();
        for number in 0..=STEADY {
            let patient = number == STEADY;
            let seed = SEED + u64::from(number);
            let publisher = Publisher {
                connection: PgConnection::connect(&self.url)
                    .await
                    .map_err(DevError::database("connect to the database"))?,
                sample: Sample::new(seed),
                random: Rng::with_seed(seed),
                pace: Pace::new(if patient { patient_rate } else { steady_rate }),
                patient,
                load: self.clone(),
            };
            publishers.spawn(publisher.run());
        }
        while let Some(ended) = publishers.join_next().await {
            ended.map_err(DevError::database("publish"))??;
        }
        Ok(())
    }
}

struct Publisher {
    connection: PgConnection,
    sample: Sample,
    random: Rng,
    pace: Pace,
    patient: bool,
    load: Load,
}

impl Publisher {
    async fn run(mut self) -> Result<(), DevError> {
        loop {
            let count = self.random.usize(1..=MOST_EVENTS);
            tokio::select! {
                biased;
                () = self.load.stop.cancelled() => break,
                () = self.pace.wait(count) => {}
            }
            let mut events = self.sample.events(count);
            let held_back = if self.patient {
                events.split_off(count / 2)
            } else {
                Vec::new()
            };
            self.transaction(&events, &held_back).await?;
        }
        // Saying goodbye is a courtesy; the server ends soon anyway.
        self.connection.close().await.ok();
        Ok(())
    }

    /// Publishes `first` and, after a while, `then`; commits or rolls back.
    async fn transaction(
        &mut self,
        first: &[SampleEvent],
        then: &[SampleEvent],
    ) -> Result<(), DevError> {
        let mut transaction = self
            .connection
            .begin()
            .await
            .map_err(DevError::database("begin a transaction"))?;
        let publishing = |error: PublishError| DevError::database("publish")(error);
        let mut ids = publish(&mut transaction, first).await.map_err(publishing)?;
        if !then.is_empty() {
            let held = Duration::from_millis(self.random.u64(1000..2000));
            tokio::select! {
                () = sleep(held) => {}
                () = self.load.stop.cancelled() => {}
            }
            ids.extend(publish(&mut transaction, then).await.map_err(publishing)?);
        }
        let ledger = &self.load.ledger;
        if self.random.u8(..100) < ROLLED_BACK_PERCENT {
            // Whether the server hears of it or not, it will not commit.
            ledger.note(&ids, Outcome::RolledBack);
            return transaction
                .rollback()
                .await
                .map_err(DevError::database("roll back"));
        }
        match transaction.commit().await {
            Ok(()) => {
                ledger.note(&ids, Outcome::Committed);
                Ok(())
            }
            Err(error) => {
                ledger.note(&ids, Outcome::Unknown);
                Err(DevError::database("commit")(error))
            }
        }
    }
}

async fn publish(
    connection: &mut PgConnection,
    events: &[SampleEvent],
) -> Result<Vec<CompactId>, PublishError> {
    let events: Vec<NewEvent> = events
        .iter()
        .map(|event| {
            NewEvent::new(&event.event_type, &event.tenant_id, &event.subject)
                .raw_data(event.data.to_string())
        })
        .collect();
    let published = publish_many(connection, &events).await?;
    Ok(published
        .iter()
        .map(|event| CompactId::parse(&event.id).expect("the outbox makes ids of 128 bits"))
        .collect())
}

/// Spreads events evenly over time.
#[derive(Debug)]
struct Pace {
    per_event: Duration,
    next: Instant,
}

impl Pace {
    /// `rate` is in events a second, and above zero.
    fn new(rate: f64) -> Self {
        Self {
            per_event: Duration::from_secs_f64(1.0 / rate),
            next: Instant::now(),
        }
    }

    /// Waits until the next `count` events are due.
    async fn wait(&mut self, count: usize) {
        sleep_until(self.next).await;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let now = Instant::now();
        let oldest = now.checked_sub(CATCH_UP).unwrap_or(now);
        self.next = self.next.max(oldest) + self.per_event.saturating_mul(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_pace_is_kept_whatever_the_size_of_the_transactions() {
        let started = Instant::now();
        let mut pace = Pace::new(100.0);
        for count in [1, 10, 4, 5, 10, 20] {
            pace.wait(count).await;
        }
        pace.wait(1).await;
        let millis = started.elapsed().as_millis();
        assert!((495..=510).contains(&millis), "{millis} ms for 50 events");
    }

    #[tokio::test(start_paused = true)]
    async fn a_publisher_that_fell_far_behind_catches_up_with_a_second_only() {
        let mut pace = Pace::new(100.0);
        sleep(Duration::from_secs(3600)).await;
        let resumed = Instant::now();
        for _ in 0..101 {
            pace.wait(1).await;
        }
        assert!(resumed.elapsed() < Duration::from_millis(20));
        for _ in 0..100 {
            pace.wait(1).await;
        }
        assert!(resumed.elapsed() >= Duration::from_millis(900));
    }
}
