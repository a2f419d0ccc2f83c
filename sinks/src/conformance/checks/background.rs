//! "When you do return, know of nothing of the batch that may still be sent behind your
//! back"; "never keep events after returning".

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::sleep;

use super::outage::{judge, met};
use crate::Batch;
use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::stored;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Mode, Rule};

/// How long nothing may appear. Client libraries reconnect within a second or two.
pub(super) const STILLNESS: Duration = Duration::from_secs(2);

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Background,
            "nothing is sent after a delivery has failed",
            |scene| nothing_follows(scene).boxed(),
        )
        .await;
}

async fn nothing_follows<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let proxy = scene.network().await?;
    let mut courier = scene.courier_via(&proxy);
    let before = scene.batch(6, 3);
    courier.deliver_all(&before).await?;
    proxy.set(Mode::Refuse);
    let batch = scene.batch(20, 4);
    let answer = courier.deliver(&batch).await?;
    judge(scene, &batch, &answer).await?;
    met(&answer)?;
    proxy.set(Mode::Pass);
    sleep(STILLNESS).await;
    let (came, all) = (came(scene, &batch).await, batch.len());
    if came > 0 {
        return Err(Stop::own(format!(
            "{came} of {all} events arrived after their delivery had failed, and nobody had \
             delivered them again"
        )));
    }
    courier.recover(&batch).await?;
    let events: Vec<_> = before.iter().chain(&batch).cloned().collect();
    scene.verify(courier.connector(), &events).await
}

/// How many events of a batch are there.
pub(super) async fn came<D: Destination>(scene: &Scene<'_, D>, batch: &Batch) -> usize {
    let there = scene.stored().await;
    let came = batch
        .iter()
        .filter(|event| stored::copies(event, &there) > 0);
    came.count()
}
