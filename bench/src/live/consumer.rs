//! What stands at the end of the way: a consumer that notes when each event can be read.
//!
//! The relay is another process, so nobody here sees the broker's acknowledgement. But a topic
//! with one replica hands a message out as soon as it would acknowledge it, and a fetch that
//! waits is answered with the first byte. So the moment of receiving it stands for the
//! acknowledgement, a fraction of a millisecond later, and the same for all contenders.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use outbox_tests::servers::Kafka;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::journal::{Journal, PROBE};
use super::publisher::number_in;

/// How many partitions the topics have.
pub(super) const PARTITIONS: i32 = 4;

/// A thread that reads a topic from its beginning.
#[derive(Debug)]
pub(super) struct Consumer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The last number of each key.
    last: HashMap<Vec<u8>, u32>,
    out_of_order: u64,
    repeated: u64,
}

impl Consumer {
    /// Starts to read `topic` and to note the arrivals.
    ///
    /// # Errors
    /// If the client refuses its settings.
    pub(super) fn start(kafka: &Kafka, topic: &str, journal: Arc<Journal>) -> Result<Self> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", kafka.bootstrap())
            .set("group.id", "bench")
            .set("enable.auto.commit", "false")
            .set("fetch.min.bytes", "1")
            .set("fetch.wait.max.ms", "100")
            .create()?;
        let mut partitions = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            partitions.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&partitions)?;
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("consumer".to_owned())
            .spawn(move || read(&consumer, &journal, &until))?;
        Ok(Self { stop, thread })
    }

    /// Stops reading, and returns how many events came more than once.
    ///
    /// # Errors
    /// If the broker failed, or the events of a key came out of order.
    pub(super) fn finish(self) -> Result<u64> {
        self.stop.store(true, Relaxed);
        let seen = self.thread.join();
        let seen = seen.map_err(|_| anyhow!("the consumer panicked"))??;
        let out_of_order = seen.out_of_order;
        ensure!(
            out_of_order == 0,
            "{out_of_order} events came after a later one of their key"
        );
        Ok(seen.repeated)
    }
}

fn read(consumer: &BaseConsumer, journal: &Journal, stop: &AtomicBool) -> Result<Seen> {
    let mut seen = Seen::default();
    while !stop.load(Relaxed) {
        if let Some(message) = consumer.poll(Duration::from_millis(20)) {
            note(&message.context("read the topic")?, journal, &mut seen);
        }
    }
    Ok(seen)
}

fn note(message: &BorrowedMessage<'_>, journal: &Journal, seen: &mut Seen) {
    let Some(number) = message.payload().and_then(number_in) else {
        return;
    };
    if number == PROBE {
        journal.arrive(number);
    } else if !journal.arrive(number) {
        // A second time is allowed, whatever came in between.
        seen.repeated += 1;
    } else {
        let key = message.key().unwrap_or_default();
        match seen.last.get_mut(key) {
            Some(last) if *last > number => seen.out_of_order += 1,
            Some(last) => *last = number,
            None => {
                seen.last.insert(key.to_owned(), number);
            }
        }
    }
}
