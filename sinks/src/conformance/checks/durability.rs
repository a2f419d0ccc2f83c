//! "Report as delivered only what survives a crash of the destination."

use futures_util::FutureExt;

use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::stored;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Durability,
            "what is delivered is there at once, without a close",
            |scene| is_there(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Durability,
            "what is delivered survives a crash",
            |scene| survives(scene).boxed(),
        )
        .await;
}

async fn is_there<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    for _ in 0..4 {
        let batch = scene.batch(5, 3);
        if let Ok(verdicts) = courier.deliver(&batch).await? {
            stored::as_reported(&batch, &verdicts, &scene.stored().await)?;
        }
    }
    Ok(())
}

async fn survives<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    let before = scene.batch(50, 5);
    courier.deliver_all(&before).await?;
    if !scene.destination.crash().await {
        let why = "the server can't be crashed here (`Destination::crash`)";
        return Err(Stop::not_applicable(why));
    }
    scene.verify(courier.connector(), &before).await?;
    let after = scene.batch(20, 5);
    courier.recover(&after).await?;
    let events: Vec<_> = before.iter().chain(&after).cloned().collect();
    scene.verify(courier.connector(), &events).await
}
