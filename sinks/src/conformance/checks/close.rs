//! `Sink::close`: "lets go of the destination; everything that was reported as delivered
//! is durable already".

use futures_util::FutureExt;

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

/// The runtime logs what `close` says then, so it may be an error; it grants 3 seconds.
async fn in_outage<D: Destination>(scene: &Scene<'_, D>, mode: Mode) -> Finding {
    let proxy = scene.network().await?;
    let mut courier = scene.courier_via(&proxy);
    let batch = scene.batch(20, 4);
    courier.deliver_all(&batch).await?;
    proxy.set(mode);
    drop(courier.close().await?);
    scene.verify(courier.connector(), &batch).await
}
