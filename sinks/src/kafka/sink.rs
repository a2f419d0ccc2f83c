//! Delivers batches: hands every event to the client, waits for all reports, and
//! concludes.

use std::sync::Arc;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::time::Instant;

use super::budget::Budget;
use super::config::Settings;
use super::connector::start_error;
use super::known::Newcomers;
use super::log::ClientLog;
use super::message::Writer;
use super::options::Options;
use super::producer::{Handed, Producer};
use super::verdicts::{Outcome, Trouble};
use crate::{Batch, Delivery, Refusal, Sink, SinkError, async_trait};

/// One go at handing over the events of a batch.
struct Round<'a> {
    producer: &'a Producer,
    batch: &'a Batch,
    deadline: Instant,
    new: Newcomers,
    /// What has to wait until its key is known.
    later: Vec<usize>,
    troubles: &'a mut Vec<(usize, Trouble)>,
}

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

    /// Delivers the events in one go, and in a second one those that had to wait until
    /// their key [is known](super::known).
    async fn send(&mut self, producer: &mut Producer, batch: &Batch) -> Outcome {
        let start = Instant::now();
        let (give_up, last) = (start + self.budget.give_up, start + self.budget.last);
        let mut troubles = Vec::new();
        let mut indexes: Vec<_> = (0..batch.len()).collect();
        let mut complete = true;
        while complete && !indexes.is_empty() {
            let mut round = Round {
                producer,
                batch,
                deadline: give_up,
                new: Newcomers::default(),
                later: Vec::new(),
                troubles: &mut troubles,
            };
            self.hand_over(&mut round, indexes).await;
            let Round { new, later, .. } = round;
            complete = producer.settle(give_up, last).await;
            indexes = later;
            if complete && !producer.is_troubled() {
                producer.known.meet(new);
            }
        }
        troubles.extend(indexes.into_iter().map(|index| (index, Trouble::Unsent)));
        let failures = producer.take_failures().into_iter();
        troubles.extend(failures.map(|(index, error)| (index, Trouble::Answered(error))));
        Outcome {
            troubles,
            complete,
            condition: producer.take_condition(),
        }
    }

    /// Hands events over in order, until one fails for a reason that is not its own.
    /// Notes what is not handed over.
    async fn hand_over(&mut self, round: &mut Round<'_>, indexes: Vec<usize>) {
        let mut indexes = indexes.into_iter();
        for index in indexes.by_ref() {
            let Some(event) = round.batch.get(index) else {
                continue;
            };
            let Err(trouble) = self.hand_over_one(round, index, event).await else {
                continue;
            };
            let only_this = matches!(trouble, Trouble::Undeliverable(_));
            round.troubles.push((index, trouble));
            if !only_this {
                break;
            }
        }
        let unsent = indexes.map(|index| (index, Trouble::Unsent));
        round.troubles.extend(unsent);
    }

    async fn hand_over_one(
        &mut self,
        round: &mut Round<'_>,
        index: usize,
        event: &outbox::Event,
    ) -> Result<(), Trouble> {
        let producer = round.producer;
        let mut admitted = false;
        loop {
            if producer.is_troubled() {
                return Err(Trouble::Unsent);
            }
            let message = self.writer.write(event).map_err(Trouble::Undeliverable)?;
            if !admitted && !producer.known.admits(&message, &mut round.new) {
                round.later.push(index);
                return Ok(());
            }
            admitted = true;
            let size = message.size();
            match producer.send(index, message) {
                Handed::Over => return Ok(()),
                Handed::Refused(error) => return Err(self.refused(size, error)),
                Handed::NoRoom => {
                    if !producer.make_room(round.deadline).await {
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
