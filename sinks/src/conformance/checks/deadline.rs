//! "Return within `Session::delivery_timeout`"; after that the runtime drops the call.
//!
//! That no call takes longer is looked at in every check. Here a call is dropped.

use std::time::Duration;

use futures_util::FutureExt;

use crate::conformance::finding::Finding;
use crate::conformance::scene::Scene;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Mode, Rule};

/// How long a delivery is under way before it is dropped.
const UNDER_WAY: Duration = Duration::from_millis(100);

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Deadline,
            "a delivery that is dropped while it hangs breaks nothing",
            |scene| dropped(scene, Mode::Hang).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Deadline,
            "a delivery that is dropped before its answer breaks nothing",
            |scene| dropped(scene, Mode::HoldAnswers).boxed(),
        )
        .await;
}

async fn dropped<D: Destination>(scene: &Scene<'_, D>, mode: Mode) -> Finding {
    let proxy = scene.network().await?;
    let mut courier = scene.courier_via(&proxy);
    let before = scene.batch(6, 3);
    courier.deliver_all(&before).await?;
    proxy.set(mode);
    let batch = scene.large_batch(40, 5, 500);
    courier.drop_delivery(&batch, UNDER_WAY).await;
    proxy.set(Mode::Pass);
    courier.recover(&batch).await?;
    let after = scene.batch(6, 3);
    courier.recover(&after).await?;
    let events: Vec<_> = before.iter().chain(&batch).chain(&after).cloned().collect();
    scene.verify(courier.connector(), &events).await
}
