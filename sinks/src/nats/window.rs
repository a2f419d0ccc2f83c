//! Which event of a batch may be sent now.
//!
//! The invariant: an event is given out only after its predecessor of the same key
//! was settled, and never if that predecessor did not get through (OB-4). Among
//! those that may be sent, the earliest goes first. Sends nothing itself, and knows
//! no time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The events of one batch, by index, on their way through a bounded window.
#[derive(Debug)]
pub(super) struct Window {
    successor: Vec<Option<usize>>,
    ready: BinaryHeap<Reverse<usize>>,
    in_flight: usize,
    limit: usize,
}

impl Window {
    /// A window of at most `limit` events in flight over events with these keys.
    pub(super) fn new(keys: impl IntoIterator<Item = String>, limit: usize) -> Self {
        let mut successor = Vec::new();
        let mut ready = BinaryHeap::new();
        let mut last_of_key = HashMap::new();
        for (index, key) in keys.into_iter().enumerate() {
            successor.push(None);
            match last_of_key.insert(key, index) {
                Some(before) => {
                    if let Some(slot) = successor.get_mut(before) {
                        *slot = Some(index);
                    }
                }
                None => ready.push(Reverse(index)),
            }
        }
        Self {
            successor,
            ready,
            in_flight: 0,
            limit,
        }
    }

    /// The next event that may be sent, if there is one and room for it. It is in
    /// flight from now on.
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.in_flight >= self.limit {
            return None;
        }
        let Reverse(index) = self.ready.pop()?;
        self.in_flight += 1;
        Some(index)
    }

    /// Takes an event out of flight. `passed` if it is stored or can never be sent:
    /// then its successor may follow.
    pub(super) fn settle(&mut self, index: usize, passed: bool) {
        self.in_flight -= 1;
        if passed && let Some(&Some(next)) = self.successor.get(index) {
            self.ready.push(Reverse(next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_single_slot_gives_the_batch_in_its_order() {
        let keys = ["a", "a", "b", "a", "b"].map(str::to_owned);
        let mut window = Window::new(keys, 1);
        let mut order = Vec::new();
        while let Some(index) = window.next() {
            order.push(index);
            window.settle(index, true);
        }
        assert_eq!(order, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_failed_holds_back_its_key_and_no_other() {
        let mut window = Window::new(["a", "b", "a", "b"].map(str::to_owned), 9);
        assert_eq!(
            (window.next(), window.next(), window.next()),
            (Some(0), Some(1), None)
        );
        window.settle(0, false);
        window.settle(1, true);
        assert_eq!((window.next(), window.next()), (Some(3), None));
    }

    proptest! {
        /// OB-4, for any keys, window, order of answers and failures.
        #[test]
        fn no_event_overtakes_its_predecessor(
            keys in prop::collection::vec(0u8..6, 1..80),
            limit in 1usize..10,
            choices in prop::collection::vec((any::<prop::sample::Index>(), prop::bool::weighted(0.9)), 80),
        ) {
            let mut window = Window::new(keys.iter().map(u8::to_string), limit);
            let (mut flying, mut passed, mut failed) = (Vec::new(), vec![false; keys.len()], vec![false; keys.len()]);
            let mut choices = choices.into_iter();
            loop {
                while let Some(index) = window.next() {
                    let before = (0..index).filter(|&i| keys[i] == keys[index]);
                    prop_assert!(before.into_iter().all(|i| passed[i]), "{} overtook", index);
                    flying.push(index);
                }
                prop_assert!(flying.len() <= limit);
                if flying.is_empty() {
                    break;
                }
                let (which, ok) = choices.next().unwrap();
                let index = flying.swap_remove(which.index(flying.len()));
                (if ok { &mut passed } else { &mut failed })[index] = true;
                window.settle(index, ok);
            }
            // Whoever was not sent has a failed event of its key before it.
            for index in 0..keys.len() {
                let blocked = (0..index).any(|i| keys[i] == keys[index] && failed[i]);
                prop_assert!(passed[index] || failed[index] || blocked);
            }
        }
    }
}
