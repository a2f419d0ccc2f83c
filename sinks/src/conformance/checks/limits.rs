//! `Connector::batch_limits`: "how large a batch this destination likes best"; and what a
//! connector may not ask for together.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::ready;

use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};

const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(Rule::Limits, "the limits of a batch are sane", |scene| {
            ready(are_sane(scene)).boxed()
        })
        .await;
    suite
        .check(
            Rule::Limits,
            "ranges are frozen or a position is stored, not both",
            |scene| ready(exclude_each_other(scene)).boxed(),
        )
        .await;
}

fn are_sane<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let limits = scene.courier().connector().batch_limits();
    if limits.max_events == 0 || limits.max_bytes == 0 {
        return Err(Stop::own("a batch of nothing: a limit is zero"));
    }
    if limits.max_wait >= A_DAY {
        let wait = limits.max_wait;
        return Err(Stop::own(format!(
            "events wait {wait:?} before they are delivered"
        )));
    }
    Ok(())
}

fn exclude_each_other<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let courier = scene.courier();
    if courier.frozen() && courier.connector().stores_position() {
        return Err(Stop::own(
            "`frozen_ranges` and `stores_position` exclude each other: a frozen range is settled \
             as a whole, and what comes behind an event that is not taken is stored later",
        ));
    }
    Ok(())
}
