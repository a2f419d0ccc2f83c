//! Chance, drawn from a seed: the same seed always gives the same run.
//!
//! Every purpose has a stream of its own, so that switching one kind of fault off
//! leaves what the others draw as it was: that is what makes a failure shrink.

use fastrand::Rng;

/// The stream of numbers of one purpose.
pub(crate) fn stream(seed: u64, purpose: &str, number: u64) -> Rng {
    let named = purpose
        .bytes()
        .fold(seed, |hash, byte| mix(hash ^ u64::from(byte)));
    Rng::with_seed(mix(named ^ number))
}

/// The last step of SplitMix64: spreads neighbouring inputs over all numbers.
const fn mix(input: u64) -> u64 {
    let mut hash = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// What the simulation draws.
pub(crate) trait Chance {
    /// Whether something of this probability happens. Never draws for zero, so that
    /// what is switched off changes nothing else.
    fn happens(&mut self, probability: f64) -> bool;

    /// A number between two others, small ones as likely as large ones.
    fn spread(&mut self, least: f64, most: f64) -> f64;

    /// A number of milliseconds.
    fn millis(&mut self, least: u64, most: u64) -> u64;
}

impl Chance for Rng {
    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.f64() < probability
    }

    fn spread(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.f64())
    }

    fn millis(&mut self, least: u64, most: u64) -> u64 {
        self.u64(least..=most.max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_repeats_and_differs_from_every_other() {
        let first = |seed, purpose, number| stream(seed, purpose, number).u64(..);
        assert_eq!(first(1, "crash", 0), first(1, "crash", 0));
        assert_ne!(first(1, "crash", 0), first(2, "crash", 0));
        assert_ne!(first(1, "crash", 0), first(1, "pause", 0));
        assert_ne!(first(1, "crash", 0), first(1, "crash", 1));
    }
}
