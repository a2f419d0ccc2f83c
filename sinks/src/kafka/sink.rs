//! Delivers batches: hands every event to the client, waits for all reports, and
//! concludes.

use std::collections::HashSet;
use std::sync::Arc;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::time::Instant;

use super::budget::Budget;
use super::config::Settings;
use super::connector::start_error;
use super::log::ClientLog;
use super::message::Writer;
use super::options::Options;
use super::producer::{Handed, Producer};
use super::verdicts::{Outcome, Trouble};
use crate::{Batch, Delivery, Refusal, Sink, SinkError, async_trait};

/// An open Kafka sink.
pub(super) struct KafkaSink {
    writer: Writer,
    options: Arc<Options>,
    budget: Budget,
    log: ClientLog,
    largest: usize,
    /// `None` after a failure, and while a delivery has it. A delivery that is
    /// dropped halfway takes the producer, and what it has not sent, with it.
    producer: Option<Producer>,
}

impl KafkaSink {
    pub(super) async fn open(
        settings: &Settings,
        options: Arc<Options>,
        budget: Budget,
        log: ClientLog,
    ) -> Result<Self, SinkError> {
        let mut sink = Self {
            writer: Writer::new(settings),
            options,
            budget,
            log,
            largest: settings.max_message_bytes.as_usize(),
            producer: None,
        };
        sink.producer = Some(sink.ready().await?);
        Ok(sink)
    }

    /// The producer at hand, or a fresh one.
    async fn ready(&mut self) -> Result<Producer, SinkError> {
        match self.producer.take() {
            Some(producer) => Ok(producer),
            None => Producer::start(&self.options, &self.budget, &self.log)
                .await
                .map_err(|error| start_error(&self.log, &error)),
        }
    }

    /// Delivers the events in one go; with a fresh producer in two.
    ///
    /// A broker that knows a producer refuses a request whose predecessor it refused,
    /// by the sequence numbers. To one that it does not know yet it grants any first
    /// number, so a successor that is already under way would overtake. So a fresh
    /// producer first sends the first event of each key, and all others when those
    /// are acknowledged and the partitions know it.
    async fn send(&mut self, producer: &mut Producer, batch: &Batch) -> Outcome {
        let start = Instant::now();
        let (give_up, last) = (start + self.budget.give_up, start + self.budget.last);
        let (first, mut rest) = if producer.is_known {
            (Vec::new(), (0..batch.len()).collect())
        } else {
            self.first_of_each_key(batch)
        };
        let mut troubles = Vec::new();
        let mut complete = true;
        if !first.is_empty() {
            self.hand_over(producer, batch, first, give_up, &mut troubles)
                .await;
            complete = producer.settle(give_up, last).await;
            producer.is_known = complete && !producer.is_troubled();
        }
        if complete {
            self.hand_over(producer, batch, rest, give_up, &mut troubles)
                .await;
            complete = producer.settle(give_up, last).await;
        } else {
            troubles.extend(rest.drain(..).map(|index| (index, Trouble::Unsent)));
        }
        let failures = producer.take_failures().into_iter();
        troubles.extend(failures.map(|(index, error)| (index, Trouble::Answered(error))));
        Outcome {
            troubles,
            complete,
            condition: producer.take_condition(),
        }
    }

    /// The batch's indexes in two parts, each in order.
    fn first_of_each_key(&mut self, batch: &Batch) -> (Vec<usize>, Vec<usize>) {
        let mut seen = HashSet::new();
        (0..batch.len()).partition(|index| {
            let event = batch.get(*index);
            event
                .and_then(|event| self.writer.route(event))
                .is_some_and(|route| seen.insert(route))
        })
    }

    /// Hands events over in order, until one fails for a reason that is not its own.
    /// Notes what is not handed over.
    async fn hand_over(
        &mut self,
        producer: &Producer,
        batch: &Batch,
        indexes: Vec<usize>,
        deadline: Instant,
        troubles: &mut Vec<(usize, Trouble)>,
    ) {
        let mut indexes = indexes.into_iter();
        for index in indexes.by_ref() {
            let Some(event) = batch.get(index) else {
                continue;
            };
            let Err(trouble) = self.hand_over_one(producer, index, event, deadline).await else {
                continue;
            };
            let only_this = matches!(trouble, Trouble::Undeliverable(_));
            troubles.push((index, trouble));
            if !only_this {
                break;
            }
        }
        troubles.extend(indexes.map(|index| (index, Trouble::Unsent)));
    }

    async fn hand_over_one(
        &mut self,
        producer: &Producer,
        index: usize,
        event: &outbox::Event,
        deadline: Instant,
    ) -> Result<(), Trouble> {
        loop {
            if producer.is_troubled() {
                return Err(Trouble::Unsent);
            }
            let message = self.writer.write(event).map_err(Trouble::Undeliverable)?;
            let size = message.size();
            match producer.send(index, message) {
                Handed::Over => return Ok(()),
                Handed::Refused(error) => return Err(self.refused(size, error)),
                Handed::NoRoom => {
                    if !producer.make_room(deadline).await {
                        return Err(Trouble::Unsent);
                    }
                }
            }
        }
    }

    /// The client itself knows the size limit to the byte.
    fn refused(&self, size: usize, error: KafkaError) -> Trouble {
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::MessageSizeTooLarge) {
            return Trouble::Answered(error);
        }
        let largest = self.largest;
        Trouble::Undeliverable(Refusal::new(
            "TOO_LARGE",
            format!(
                "the message has {size} bytes with key, headers and framing; `max_message_bytes` is {largest}"
            ),
        ))
    }
}

#[async_trait]
impl Sink for KafkaSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let mut producer = self.ready().await?;
        let outcome = self.send(&mut producer, batch).await;
        if outcome.is_clean() {
            self.log.recovered();
            self.producer = Some(producer);
        }
        outcome.conclude(batch, |event| self.writer.route(event))
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        if let Some(producer) = self.producer.take() {
            producer.stop().await;
        }
        Ok(())
    }
}
