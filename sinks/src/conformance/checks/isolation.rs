//! Several sinks of one kind run in one process: what they share must not be theirs.

use futures_util::FutureExt;
use outbox::Event;

use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::stored;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule, Stored};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Isolation,
            "two sinks side by side do not disturb each other",
            |scene| side_by_side(scene).boxed(),
        )
        .await;
}

async fn side_by_side<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let destination = scene.destination;
    let other_place = destination.fresh().await;
    let mut here = scene.courier();
    let mut there = scene.courier_with(destination.connector(&other_place, None));
    there.rename(&format!("{}-beside", scene.sink()));
    // Both are open before either delivers; what can't be opened now is opened then.
    drop((here.open().await?, there.open().await?));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let (our, their) = (scene.batch(40, 4), scene.batch(40, 4));
        let both = tokio::join!(here.deliver_all(&our), there.deliver_all(&their));
        both.0.and(both.1)?;
        ours.extend(our.iter().cloned());
        theirs.extend(their.iter().cloned());
    }
    let elsewhere = destination.stored(&other_place).await;
    strays(&theirs, &scene.stored().await)?;
    strays(&ours, &elsewhere)?;
    scene.verify(here.connector(), &ours).await?;
    stored::complete(&theirs, &elsewhere)?;
    stored::in_order(there.connector(), &theirs, &elsewhere)
}

/// Nothing that was sent to the other place is here.
fn strays(others: &[Event], stored: &[Stored]) -> Finding {
    let strays = others
        .iter()
        .filter(|event| stored::copies(event, stored) > 0);
    match strays.count() {
        0 => Ok(()),
        count => Err(Stop::own(format!(
            "{count} events arrived in another place than their own"
        ))),
    }
}
