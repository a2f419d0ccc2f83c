//! How the time that one delivery may take is divided.

use std::time::Duration;

/// The times within one delivery. The client gives up before the sink does, and the
/// sink before the runtime drops the call, so that nothing is sent behind its back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// After this a message fails within librdkafka.
    pub(super) message_timeout: Duration,
    /// After this the sink takes everything back that has no report yet.
    pub(super) give_up: Duration,
    /// After this it waits no longer for the reports of what it took back.
    pub(super) last: Duration,
    /// How long an unknown topic may be unknown before it counts as missing.
    pub(super) propagation: Duration,
    /// How long a new client may take to find its way before anything is handed over.
    pub(super) greeting: Duration,
    /// How long one attempt to connect may take before the next broker is tried.
    pub(super) connect: Duration,
}

impl Budget {
    /// Divides the time that the runtime grants.
    pub(super) fn of(delivery_timeout: Duration) -> Self {
        let grace = (delivery_timeout / 5).min(Duration::from_secs(5));
        let message_timeout = (delivery_timeout - grace).max(Duration::from_millis(10));
        Self {
            message_timeout,
            give_up: delivery_timeout - grace / 2,
            last: delivery_timeout - grace / 4,
            propagation: (message_timeout / 3).min(Duration::from_secs(5)),
            greeting: (grace / 4).min(Duration::from_secs(1)),
            connect: (message_timeout / 2).clamp(Duration::from_secs(1), Duration::from_secs(10)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_party_gives_up_before_the_one_that_waits_for_it(millis in 100u64..3_600_000) {
            let granted = Duration::from_millis(millis);
            let budget = Budget::of(granted);
            prop_assert!(budget.propagation < budget.message_timeout);
            prop_assert!(budget.greeting + budget.message_timeout < budget.give_up);
            prop_assert!(budget.give_up < budget.last);
            prop_assert!(budget.last < granted);
        }
    }
}
