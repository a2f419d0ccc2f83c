//! Delivers batches: hands every event to the client, waits for all reports, and
//! concludes.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::Instant;

use super::budget::Budget;
use super::config::Settings;
use super::connector::start_error;
use super::log::ClientLog;
use super::message::Writer;
use super::options::Options;
use super::passage::{Hand, Passage};
use super::producer::Producer;
use super::reports::Side;
use crate::{Batch, Delivery, Sink, SinkError, Upcoming, async_trait};

/// An open Kafka sink.
pub(super) struct KafkaSink {
    hand: Hand,
    /// The topic, if it is the same for all events.
    topic: Option<String>,
    options: Arc<Options>,
    budget: Budget,
    log: ClientLog,
    /// `None` after a failure, and while a delivery has it. A delivery that is
    /// dropped halfway takes the producer, and what it has not sent, with it.
    line: Option<Line>,
}

/// A producer, and the batch that was begun ahead on it.
struct Line {
    producer: Producer,
    begun: Option<Passage>,
}

/// Until when what is done.
#[derive(Clone, Copy)]
struct Deadlines {
    give_up: Instant,
    last: Instant,
}

impl KafkaSink {
    pub(super) async fn open(
        settings: &Settings,
        options: Arc<Options>,
        budget: Budget,
        log: ClientLog,
    ) -> Result<Self, SinkError> {
        let mut sink = Self {
            hand: Hand {
                writer: Writer::new(settings),
                largest: settings.max_message_bytes.as_usize(),
            },
            topic: settings.topic.as_fixed().map(str::to_owned),
            options,
            budget,
            log,
            line: None,
        };
        sink.line = Some(sink.fresh().await?);
        Ok(sink)
    }

    async fn fresh(&self) -> Result<Line, SinkError> {
        let producer = Producer::start(&self.options, &self.budget, &self.log).await;
        let producer = producer.map_err(|error| start_error(&self.log, &error))?;
        Ok(Line {
            producer: match &self.topic {
                Some(topic) => producer.greet(topic, self.budget.greeting).await,
                None => producer,
            },
            begun: None,
        })
    }

    /// The producer at hand with what was begun of this batch, or a fresh one.
    async fn ready(&mut self, batch: &Batch, until: Deadlines) -> Result<Line, SinkError> {
        match self.line.take() {
            Some(line) => match line.unless_another_is_begun(batch, until).await {
                Some(line) => Ok(line),
                None => self.fresh().await,
            },
            None => self.fresh().await,
        }
    }

    /// Waits for the reports of a batch that was handed over, and begins with the next one
    /// meanwhile. False if not all have come.
    async fn settle(
        &mut self,
        producer: &Producer,
        passage: &Passage,
        next: &mut Upcoming<'_>,
        begun: &mut Option<Passage>,
        until: Deadlines,
    ) -> bool {
        let mut settled = pin!(producer.settle(passage.side(), until.give_up, until.last));
        // Once: all that goes ahead is one batch.
        tokio::select! {
            biased;
            complete = &mut settled => return complete,
            next = next.batch() => {
                let mut next = Passage::new(next, passage.side().other());
                next.begin(&mut self.hand, producer, passage);
                *begun = Some(next);
            }
        }
        settled.await
    }
}

impl Line {
    /// Itself, if it may deliver this batch: if nothing is begun, or this one, or what was
    /// begun has come through.
    async fn unless_another_is_begun(mut self, batch: &Batch, until: Deadlines) -> Option<Self> {
        let Some(begun) = self.begun.take() else {
            return Some(self);
        };
        if begun.is_of(batch) {
            self.begun = Some(begun.resume());
            return Some(self);
        }
        let complete = self
            .producer
            .settle(begun.side(), until.give_up, until.last);
        let complete = complete.await;
        let clean = begun.outcome(&self.producer, complete).is_clean();
        clean.then_some(self)
    }
}

#[async_trait]
impl Sink for KafkaSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        self.deliver_ahead(batch, &mut Upcoming::none()).await
    }

    /// Delivers the events in one go, and in a second one those that had to wait until
    /// their key [is known](super::known).
    async fn deliver_ahead(
        &mut self,
        batch: &Batch,
        next: &mut Upcoming<'_>,
    ) -> Result<Delivery, SinkError> {
        let start = Instant::now();
        let until = Deadlines {
            give_up: start + self.budget.give_up,
            last: start + self.budget.last,
        };
        let Line {
            mut producer,
            begun,
        } = self.ready(batch, until).await?;
        let mut passage = begun.unwrap_or_else(|| Passage::new(batch.clone(), Side::Even));
        let mut begun = None;
        let complete = loop {
            let (hand, give_up) = (&mut self.hand, until.give_up);
            passage.hand_over(hand, &producer, give_up).await;
            let complete = if passage.is_last_round() {
                self.settle(&producer, &passage, next, &mut begun, until)
                    .await
            } else {
                let (side, last) = (passage.side(), until.last);
                producer.settle(side, give_up, last).await
            };
            if !passage.next_round(&mut producer, complete) {
                break complete;
            }
        };
        let outcome = passage.outcome(&producer, complete);
        if outcome.is_clean() {
            self.log.recovered();
            self.line = Some(Line { producer, begun });
        }
        outcome.conclude(batch, |event| self.hand.writer.route(event))
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        if let Some(Line { producer, .. }) = self.line.take() {
            producer.stop().await;
        }
        Ok(())
    }
}
