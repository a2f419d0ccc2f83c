//! `Sink::close`: "lets go of the destination; everything that was reported as delivered
//! is durable already, and what was not is sent by nobody but the runtime: closing sends no
//! event".

use futures_util::FutureExt;
use tokio::time::sleep;

use super::background::{STILLNESS, came};
use super::outage::{judge, met};
use crate::conformance::courier::describe;
use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Mode, Rule};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Close,
            "a sink closes, and everything is there",
            |scene| in_peace(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Close,
            "a sink closes soon while the server hangs",
            |scene| in_outage(scene, Mode::Hang).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Close,
            "a sink closes soon while the server is gone",
            |scene| in_outage(scene, Mode::Refuse).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Close,
            "closing sends nothing of a delivery that failed",
            |scene| sends_nothing(scene).boxed(),
        )
        .await;
}

async fn in_peace<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    let batch = scene.batch(20, 4);
    courier.deliver_all(&batch).await?;
    if let Err(error) = courier.close().await? {
        let seen = format!("where all is well, `close` gave {}", describe(&error));
        return Err(Stop::own(seen));
    }
    scene.verify(courier.connector(), &batch).await?;
    let next = scene.batch(3, 3);
    courier.deliver_all(&next).await?;
    scene.verify(courier.connector(), &next).await
}

/// The runtime logs what `close` says then, so it may be an error.
async fn in_outage<D: Destination>(scene: &Scene<'_, D>, mode: Mode) -> Finding {
    let proxy = scene.network().await?;
    let mut courier = scene.courier_via(&proxy);
    let batch = scene.batch(20, 4);
    courier.deliver_all(&batch).await?;
    proxy.set(mode);
    drop(courier.close().await?);
    scene.verify(courier.connector(), &batch).await
}

/// The runtime may have given the sink up, and somebody else may deliver in its place.
async fn sends_nothing<D: Destination>(scene: &Scene<'_, D>) -> Finding {
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
    drop(courier.close().await?);
    sleep(STILLNESS).await;
    let (came, all) = (came(scene, &batch).await, batch.len());
    if came > 0 {
        return Err(Stop::own(format!(
            "{came} of {all} events arrived when the sink was closed, after their delivery had \
             failed"
        )));
    }
    courier.recover(&batch).await?;
    let events: Vec<_> = before.iter().chain(&batch).cloned().collect();
    scene.verify(courier.connector(), &events).await
}
