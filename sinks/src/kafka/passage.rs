//! One batch on its way through a producer: what was handed over, and what has to wait.

use std::collections::VecDeque;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::time::Instant;

use super::known::Newcomers;
use super::message::Writer;
use super::producer::{Handed, Producer};
use super::reports::{Side, Ticket};
use super::verdicts::{Outcome, Trouble};
use crate::{Batch, Refusal};

/// What hands events over: messages are written into its buffers.
pub(super) struct Hand {
    pub(super) writer: Writer,
    /// The largest message, as configured.
    pub(super) largest: usize,
}

/// A batch, from its first event handed over to its last report.
pub(super) struct Passage {
    batch: Batch,
    side: Side,
    /// What is to be handed over, by index.
    waiting: VecDeque<usize>,
    /// What has to wait until its key is known.
    later: VecDeque<usize>,
    new: Newcomers,
    /// What was admitted and found no room.
    admitted: Option<usize>,
    /// Whether handing over has failed for good.
    stuck: bool,
    troubles: Vec<(usize, Trouble)>,
}

/// How far handing over came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// Nothing is waiting.
    Through,
    /// The queue is full.
    NoRoom,
    /// It is pointless to go on.
    Trouble,
}

impl Passage {
    pub(super) fn new(batch: Batch, side: Side) -> Self {
        Self {
            waiting: (0..batch.len()).collect(),
            batch,
            side,
            later: VecDeque::new(),
            new: Newcomers::default(),
            admitted: None,
            stuck: false,
            troubles: Vec::new(),
        }
    }

    /// Whether this is the batch that is on its way.
    pub(super) fn is_of(&self, batch: &Batch) -> bool {
        let range = |batch: &Batch| (batch.first().position(), batch.end(), batch.len());
        !batch.is_apart() && range(batch) == range(&self.batch)
    }

    pub(super) const fn side(&self) -> Side {
        self.side
    }

    /// Whether everything was handed over that can be.
    pub(super) fn is_last_round(&self) -> bool {
        self.later.is_empty()
    }

    /// Hands over what is waiting, in order, until one fails for a reason that is not its own.
    /// Notes what is not handed over.
    pub(super) async fn hand_over(
        &mut self,
        hand: &mut Hand,
        producer: &Producer,
        deadline: Instant,
    ) {
        loop {
            match self.go_on(hand, producer, &Newcomers::default()) {
                Came::Through => return,
                Came::NoRoom if producer.make_room(self.side, deadline).await => {}
                Came::NoRoom | Came::Trouble => break,
            }
        }
        let unsent = self.waiting.drain(..);
        self.troubles
            .extend(unsent.map(|index| (index, Trouble::Unsent)));
    }

    /// Hands over what there is room for while the batch `before` it is under way. The rest
    /// is handed over when its turn comes.
    pub(super) fn begin(&mut self, hand: &mut Hand, producer: &Producer, before: &Self) {
        self.go_on(hand, producer, &before.new);
    }

    fn go_on(&mut self, hand: &mut Hand, producer: &Producer, before: &Newcomers) -> Came {
        while let Some(&index) = self.waiting.front() {
            if self.stuck || producer.is_troubled(self.side) {
                return Came::Trouble;
            }
            match self.hand_over_one(index, hand, producer, before) {
                Ok(Given::NoRoom) => {
                    self.admitted = Some(index);
                    return Came::NoRoom;
                }
                Ok(Given::Over) => {}
                Ok(Given::Later) => self.later.push_back(index),
                Err(trouble) => {
                    self.stuck = !matches!(trouble, Trouble::Undeliverable(_));
                    self.troubles.push((index, trouble));
                }
            }
            self.waiting.pop_front();
        }
        Came::Through
    }

    fn hand_over_one(
        &mut self,
        index: usize,
        hand: &mut Hand,
        producer: &Producer,
        before: &Newcomers,
    ) -> Result<Given, Trouble> {
        let event = self.batch.get(index).expect("an index of this batch");
        let message = hand.writer.write(event).map_err(Trouble::Undeliverable)?;
        let admitted =
            self.admitted == Some(index) || producer.known.admits(&message, before, &mut self.new);
        if !admitted {
            return Ok(Given::Later);
        }
        let (size, side) = (message.size(), self.side);
        match producer.send(Ticket { side, index }, message) {
            Handed::Over => Ok(Given::Over),
            Handed::NoRoom => Ok(Given::NoRoom),
            Handed::Refused(error) => Err(hand.refused(size, error)),
        }
    }

    /// Everything that was handed over is reported: what had to wait may follow. True if
    /// there is any, and no trouble.
    pub(super) fn next_round(&mut self, producer: &mut Producer, complete: bool) -> bool {
        if !complete || producer.is_troubled(self.side) {
            return false;
        }
        producer.known.meet(std::mem::take(&mut self.new));
        self.waiting.append(&mut self.later);
        !self.waiting.is_empty()
    }

    /// What came of it.
    pub(super) fn outcome(mut self, producer: &Producer, complete: bool) -> Outcome {
        let unsent = self.waiting.drain(..).chain(self.later.drain(..));
        self.troubles
            .extend(unsent.map(|index| (index, Trouble::Unsent)));
        let failures = producer.take_failures(self.side).into_iter();
        self.troubles
            .extend(failures.map(|(index, error)| (index, Trouble::Answered(error))));
        Outcome {
            troubles: self.troubles,
            complete,
            condition: producer.take_condition(),
        }
    }

    /// It is its turn now: what had to wait goes before what was not looked at yet.
    pub(super) fn resume(mut self) -> Self {
        self.later.append(&mut self.waiting);
        self.waiting = std::mem::take(&mut self.later);
        self
    }
}

/// What became of an event.
enum Given {
    Over,
    Later,
    NoRoom,
}

impl Hand {
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
