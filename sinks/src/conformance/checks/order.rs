//! "Within one key, never make an event durable before its predecessor" (OB-4), and all
//! of them arrive.

use futures_util::FutureExt;

use crate::conformance::finding::Finding;
use crate::conformance::scene::Scene;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Order,
            "batches of 1, 2, 100 and 1000 events arrive in order",
            |scene| arrive(scene, 7).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Order,
            "events of a single key arrive in order",
            |scene| arrive_of_one_key(scene).boxed(),
        )
        .await;
}

async fn arrive<D: Destination>(scene: &Scene<'_, D>, subjects: usize) -> Finding {
    let mut courier = scene.courier();
    let mut events = Vec::new();
    for count in [1, 2, 100, 1_000] {
        let batch = scene.batch(count, subjects);
        courier.deliver_all(&batch).await?;
        events.extend(batch.iter().cloned());
    }
    scene.verify(courier.connector(), &events).await
}

async fn arrive_of_one_key<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    let batch = scene.batch(60, 1);
    courier.deliver_all(&batch).await?;
    scene.verify(courier.connector(), &batch).await
}
