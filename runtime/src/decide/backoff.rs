//! How long to wait after a failed delivery.

use std::time::Duration;

use outbox_sinks::ErrorKind;

use super::judge::Fault;
use crate::settings::RetrySettings;

/// What a pause depends on.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Failed attempts in a row, this one included: at least 1.
    pub attempts: u32,
    /// What kind of failure it was.
    pub kind: ErrorKind,
    /// How long the destination asked to be left alone.
    pub retry_after: Option<Duration>,
    /// A number from 0 to 1 that spreads the pauses of many sinks.
    pub jitter: f64,
}

/// The pause: `initial` doubled for each attempt up to `max`, less a jitter of up to
/// a fifth. A destination's own wish counts within these bounds. What needs a
/// person is asked at the longest interval: asking more often helps nobody.
#[must_use]
pub fn pause(settings: &RetrySettings, backoff: &Backoff) -> Duration {
    let doublings = backoff.attempts.saturating_sub(1).min(31);
    let doubled = settings
        .initial
        .saturating_mul(1 << doublings)
        .min(settings.max);
    let base = match backoff.kind.into() {
        Fault::Misconfigured => settings.max,
        Fault::Unavailable | Fault::Failed | Fault::Fenced => doubled,
    };
    let spread = base.mul_f64(1.0 - 0.2 * backoff.jitter.clamp(0.0, 1.0));
    match backoff.retry_after {
        Some(wish) => spread.max(wish.min(settings.max)),
        None => spread,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn backoff(attempts: u32, kind: ErrorKind) -> Backoff {
        Backoff {
            attempts,
            kind,
            retry_after: None,
            jitter: 0.0,
        }
    }

    #[test]
    fn pauses_double_from_a_second_to_five_minutes() {
        let settings = RetrySettings::default();
        let seconds: Vec<u64> = (1..=11)
            .map(|n| pause(&settings, &backoff(n, ErrorKind::Unavailable)).as_secs())
            .collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn what_needs_a_person_is_asked_at_the_longest_interval() {
        let settings = RetrySettings::default();
        assert_eq!(
            pause(&settings, &backoff(1, ErrorKind::Misconfigured)),
            settings.max
        );
    }

    #[test]
    fn a_destinations_wish_counts_up_to_the_longest_pause() {
        let settings = RetrySettings::default();
        let wish = |seconds| Backoff {
            retry_after: Some(Duration::from_secs(seconds)),
            ..backoff(1, ErrorKind::Unavailable)
        };
        assert_eq!(pause(&settings, &wish(20)), Duration::from_secs(20));
        assert_eq!(pause(&settings, &wish(86_400)), settings.max);
        assert_eq!(pause(&settings, &wish(0)), settings.initial);
    }

    proptest! {
        #[test]
        fn a_pause_stays_within_its_bounds(
            attempts: u32,
            jitter in 0.0..=1.0f64,
            wish in proptest::option::of(0u64..1_000_000),
        ) {
            let settings = RetrySettings::default();
            let pause = pause(&settings, &Backoff {
                attempts,
                kind: ErrorKind::Failed,
                retry_after: wish.map(Duration::from_secs),
                jitter,
            });
            prop_assert!(pause >= settings.initial.mul_f64(0.79) && pause <= settings.max);
        }
    }
}
