//! The open events of the batch in hand, in pieces and in order.
//!
//! Guards OB-4: pieces are worked off from the front, halves and rests go back to the
//! front, and nothing changes the order.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};

use outbox::{Event, Position};
use outbox_sinks::Batch;

/// How many keys are looked at for a neighbour.
const MAX_NEIGHBOURS: usize = 64;

/// Pieces of what is not settled yet.
#[derive(Debug)]
pub(super) struct Queue {
    pieces: VecDeque<Batch>,
    /// What was settled ahead of its turn.
    taken: BTreeSet<Position>,
    /// Where the cursor may move once nothing is open.
    end: Position,
}

impl Queue {
    pub(super) fn new(batch: Batch, end: Position) -> Self {
        Self {
            pieces: VecDeque::from([batch]),
            taken: BTreeSet::new(),
            end,
        }
    }

    pub(super) fn front(&self) -> Option<&Batch> {
        self.pieces.front()
    }

    pub(super) fn is_one_piece(&self) -> bool {
        self.pieces.len() == 1 && self.taken.is_empty()
    }

    pub(super) fn first(&self) -> Option<&Event> {
        self.front().map(Batch::first)
    }

    pub(super) fn pop(&mut self) -> Option<Batch> {
        self.pieces.pop_front()
    }

    pub(super) fn push(&mut self, piece: Batch) {
        self.pieces.push_front(piece);
    }

    /// Puts more behind what is there.
    pub(super) fn extend(&mut self, more: Option<Batch>, end: Position) {
        self.pieces.extend(more);
        self.end = end;
    }

    /// How far the cursor may move, now that everything up to `settled` is settled: also
    /// over what was settled ahead of its turn, so that whatever is open first is the first
    /// after the cursor for the next holder as well.
    pub(super) fn settled(&self, settled: Position) -> Position {
        let Some(open) = self.first() else {
            return self.end;
        };
        let taken = self.taken.range(..open.position()).next_back();
        taken.map_or(settled, |taken| settled.max(*taken))
    }

    /// Puts back what is still open of the piece that was popped last: the others were
    /// settled, if need be ahead of their turn.
    pub(super) fn push_rest(&mut self, piece: &Batch, rest: Batch) {
        let is_settled = |event: &&Event| index(&rest, event.position()).is_none();
        let settled = piece.iter().filter(is_settled).map(Event::position);
        self.taken.extend(settled);
        self.push(rest);
    }

    /// Cuts the front piece in half. A single event stays as it is.
    pub(super) fn halve(&mut self) {
        let Some(piece) = self.pop() else { return };
        match piece.halves() {
            Some((left, right)) => {
                self.push(right);
                self.push(left);
            }
            None => self.push(piece),
        }
    }

    /// Makes the first event a piece of its own.
    pub(super) fn single_out(&mut self) {
        let Some(piece) = self.pop() else { return };
        let rest = piece.slice(1..piece.len());
        if let Some(rest) = rest {
            self.push(rest);
        }
        if let Some(first) = piece.slice(0..1) {
            self.push(first);
        }
    }

    /// The event at this position as a batch apart, if it is here.
    pub(super) fn probe(&self, position: Position) -> Option<Batch> {
        self.pieces.iter().find_map(|piece| apart(piece, position))
    }

    /// Takes the event at this position out: it was delivered ahead of its turn.
    pub(super) fn remove(&mut self, position: Position) {
        self.taken.insert(position);
        let pieces = std::mem::take(&mut self.pieces);
        for piece in pieces {
            match index(&piece, position) {
                Some(at) => {
                    self.pieces.extend(piece.slice(0..at));
                    self.pieces.extend(piece.slice(at + 1..piece.len()));
                }
                None => self.pieces.push_back(piece),
            }
        }
    }

    /// Events after the first one that may be delivered ahead of it: of each other key
    /// the first one that is not in `never`, if it is as wanted. Without keys nobody may.
    pub(super) fn neighbours<'e>(
        &'e self,
        key: impl Fn(&'e Event) -> Option<Cow<'e, str>>,
        never: &BTreeSet<Position>,
        wanted: impl Fn(Position) -> bool,
    ) -> Vec<Position> {
        // What can never be sent keeps back nothing of its key.
        let mut events = self.events();
        let Some(first) = events.next().and_then(&key) else {
            return Vec::new();
        };
        let mut seen = BTreeSet::from([first]);
        let others = events
            .filter(|event| !never.contains(&event.position()))
            .filter(|event| key(event).is_some_and(|key| seen.insert(key)));
        let others = others.map(Event::position).filter(|other| wanted(*other));
        others.take(MAX_NEIGHBOURS).collect()
    }

    /// The payload of what is open, in bytes.
    pub(super) fn payload_bytes(&self) -> usize {
        self.pieces.iter().map(Batch::payload_bytes).sum()
    }

    /// The event right after the first one, of those that are wanted.
    pub(super) fn successor(&self, wanted: impl Fn(Position) -> bool) -> Option<Position> {
        let mut others = self.events().skip(1).map(Event::position);
        others.find(|event| wanted(*event))
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.pieces.iter().flatten()
    }
}

/// The event at this position of a piece as a batch apart.
pub(super) fn apart(piece: &Batch, position: Position) -> Option<Batch> {
    let at = index(piece, position)?;
    piece.slice(at..at + 1).map(Batch::apart)
}

fn index(piece: &Batch, position: Position) -> Option<usize> {
    piece.binary_search_by_key(&position, Event::position).ok()
}
