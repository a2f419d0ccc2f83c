//! Whether what was delivered may be saved later, or has to be written after each batch.
//!
//! A process that dies leaves unsaved what it delivered within `save_interval`, so the event
//! that killed it may lie some batches behind the cursor, and the next holder's hunt begins
//! with the first. So that one writes after each batch: if it dies of the same event, the
//! cursor stands right before that, and the hunt that follows finds it.
//!
//! It does so for many times as long as it took to deliver what may be unsaved. Should even
//! that not reach the event, because all is that much slower now, then the next holder begins
//! nearer to it, and has to go less far.

use std::time::Duration;

use tokio::time::Instant;

/// How much longer a holder is cautious than what is unsaved can have taken.
const MARGIN: u32 = 10;

/// For how long a holder writes after each batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caution {
    /// Not any more.
    #[default]
    Over,
    /// For so long after its first delivery: the time in which the destination takes
    /// nothing brings it no nearer.
    AfterFirst(Duration),
    /// Until then.
    Until(Instant),
}

impl Caution {
    /// What the holder of a lease begins with that the last one has left behind.
    #[must_use]
    pub fn after_death(lease_ttl: Duration, save_interval: Duration) -> Self {
        Self::AfterFirst(lease_ttl.max(save_interval * MARGIN))
    }

    /// Takes note of a delivery. Whether it has to be written at once.
    pub fn wants_write(&mut self, now: Instant) -> bool {
        match *self {
            Self::AfterFirst(lasts) => *self = Self::Until(now + lasts),
            Self::Until(end) if now < end => {}
            Self::Until(_) | Self::Over => *self = Self::Over,
        }
        *self != Self::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caution_lasts_from_the_first_delivery_on() {
        let (ttl, now) = (Duration::from_secs(30), Instant::now());
        let mut caution = Caution::after_death(ttl, Duration::from_millis(200));
        let hour = Duration::from_secs(3_600);
        assert!(caution.wants_write(now + hour));
        assert!(caution.wants_write(now + hour + ttl / 2));
        assert!(!caution.wants_write(now + hour + ttl));
        assert_eq!(caution, Caution::Over);
        assert!(!Caution::default().wants_write(now));
    }

    #[test]
    fn a_long_interval_takes_longer_than_a_short_lease() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let caution = Caution::after_death(second, minute);
        assert_eq!(caution, Caution::AfterFirst(10 * minute));
    }
}
