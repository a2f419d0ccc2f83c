//! A batch: events in order, never empty, cheap to halve.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use outbox::{Event, Position};

/// A run of events in outbox order, which a sink delivers in one call.
///
/// Never empty. It shares its events: cloning and [halving](Batch::halves) copy
/// no event. It dereferences to `[Event]`, so it can be indexed and iterated.
///
/// ```
/// use outbox::{Event, Position};
/// use outbox_sinks::Batch;
/// let event = |seq| Event::new(Position::new(1, seq), "a.b", r#"{"id":"e","type":"a.b"}"#);
/// let batch = Batch::new(vec![event(1), event(2), event(3)]).expect("three events");
/// let (left, right) = batch.halves().expect("more than one event");
/// assert_eq!((left.len(), right.len()), (1, 2));
/// ```
#[derive(Clone)]
pub struct Batch {
    events: Arc<[Event]>,
    range: Range<usize>,
    apart: bool,
}

impl Batch {
    /// A batch of these events, or `None` if there are none.
    pub fn new(events: impl Into<Arc<[Event]>>) -> Option<Self> {
        let events = events.into();
        let range = 0..events.len();
        (!range.is_empty()).then_some(Self {
            events,
            range,
            apart: false,
        })
    }

    /// The events `range` of a shared slice, or `None` if that is empty or out of bounds.
    #[must_use]
    pub fn within(events: Arc<[Event]>, range: Range<usize>) -> Option<Self> {
        (!range.is_empty() && range.end <= events.len()).then_some(Self {
            events,
            range,
            apart: false,
        })
    }

    /// The same batch, delivered apart from the flow: see [`Batch::is_apart`].
    #[must_use]
    pub fn apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// Whether it is delivered apart from the flow: a replay of dead letters, or one
    /// event ahead of its turn to learn whether the destination takes anything. Such a
    /// batch says nothing about what came before it.
    #[must_use]
    pub const fn is_apart(&self) -> bool {
        self.apart
    }

    /// The first event.
    #[must_use]
    pub fn first(&self) -> &Event {
        self.events
            .get(self.range.start)
            .expect("a batch is never empty")
    }

    /// The last event.
    #[must_use]
    pub fn last(&self) -> &Event {
        self.events
            .get(self.range.end - 1)
            .expect("a batch is never empty")
    }

    /// The position up to which the cursor may move once all of it is delivered.
    #[must_use]
    pub fn end(&self) -> Position {
        self.last().position()
    }

    /// The sum of the payloads' lengths in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.iter().map(|event| event.payload().len()).sum()
    }

    /// The two halves, in order, or `None` for a single event. Copies nothing.
    #[must_use]
    pub fn halves(&self) -> Option<(Self, Self)> {
        let middle = self.range.start + self.range.len() / 2;
        let left = self.part(self.range.start..middle)?;
        let right = self.part(middle..self.range.end)?;
        Some((left, right))
    }

    /// The events at `range` of this batch as a batch of their own. Copies nothing.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        let start = self.range.start.checked_add(range.start)?;
        let end = self.range.start.checked_add(range.end)?;
        if end > self.range.end {
            return None;
        }
        self.part(start..end)
    }

    /// The events after `position`: what is left to do if everything up to there is stored
    /// already. All of them if the batch is [apart](Self::is_apart), which no position
    /// covers; `None` if there are none. Copies nothing.
    #[must_use]
    pub fn after(&self, position: Position) -> Option<Self> {
        if self.apart {
            return Some(self.clone());
        }
        let first = self.partition_point(|event| event.position() <= position);
        self.slice(first..self.len())
    }

    fn part(&self, range: Range<usize>) -> Option<Self> {
        let part = Self::within(Arc::clone(&self.events), range)?;
        Some(Self {
            apart: self.apart,
            ..part
        })
    }
}

impl Deref for Batch {
    type Target = [Event];

    fn deref(&self) -> &[Event] {
        self.events
            .get(self.range.clone())
            .expect("a batch's range lies within its events")
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Event;
    type IntoIter = std::slice::Iter<'a, Event>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first().position(), self.last().position());
        write!(f, "Batch({} events, {first} to {last})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batch(n: i64) -> Option<Batch> {
        let event = |seq| Event::new(Position::new(1, seq), "a.b", "{}");
        Batch::new((1..=n).map(event).collect::<Vec<_>>())
    }

    #[test]
    fn no_events_make_no_batch() {
        assert!(batch(0).is_none());
        assert!(batch(3).unwrap().slice(1..1).is_none());
        assert!(batch(3).unwrap().slice(2..4).is_none());
    }

    #[test]
    fn what_is_stored_already_is_left_out_but_not_of_what_is_apart() {
        let five = batch(5).unwrap();
        let left = |batch: &Batch, seq| batch.after(Position::new(1, seq)).map(|it| it.len());
        assert_eq!(left(&five, 0), Some(5));
        assert_eq!(left(&five, 3), Some(2));
        assert_eq!(left(&five, 5), None);
        assert_eq!(left(&five.slice(2..5).unwrap(), 3), Some(2));
        assert_eq!(left(&five.apart(), 5), Some(5));
    }

    proptest! {
        #[test]
        fn halving_to_the_end_gives_every_event_once_and_in_order(n in 1i64..300) {
            let mut queue = std::collections::VecDeque::from([batch(n).unwrap()]);
            let mut seen = Vec::new();
            while let Some(next) = queue.pop_front() {
                match next.halves() {
                    Some((left, right)) => {
                        queue.push_front(right);
                        queue.push_front(left);
                    }
                    None => seen.push(next.first().position().seq),
                }
            }
            prop_assert_eq!(seen, (1..=n).collect::<Vec<_>>());
        }
    }
}
