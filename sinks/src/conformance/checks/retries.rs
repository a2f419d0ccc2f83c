//! "You must not: retry across calls, nor retry within a call where that can store an event
//! twice; sleep to back off." The runtime retries, and knows
//! when; a sink that does it as well makes copies.

use futures_util::FutureExt;

use super::outage::{judge, until_some_arrived};
use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::stored;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Mode, Repetitions, Rule};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Retries,
            "a lost answer makes no second copy within one call",
            |scene| one_copy(scene).boxed(),
        )
        .await;
}

async fn one_copy<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    if scene.destination.repetitions() != Repetitions::Kept {
        return Err(Stop::not_applicable("the destination keeps no second copy"));
    }
    let proxy = scene.network().await?;
    let mut courier = scene.courier_via(&proxy);
    let before = scene.batch(6, 3);
    courier.deliver_all(&before).await?;
    proxy.set(Mode::HoldAnswers);
    let batch = scene.batch(20, 4);
    let lose_answers = async {
        until_some_arrived(scene, &batch).await;
        proxy.cut();
        proxy.set(Mode::Pass);
    };
    let (answer, ()) = tokio::join!(courier.deliver(&batch), lose_answers);
    judge(scene, &batch, &answer?).await?;
    stored::once(Rule::Retries, &batch, &scene.stored().await)?;
    courier.recover(&batch).await?;
    let events: Vec<_> = before.iter().chain(&batch).cloned().collect();
    scene.verify(courier.connector(), &events).await
}
