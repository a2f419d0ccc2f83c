//! `Connector::probe`: "asks whether the destination can be reached and would take our
//! events. Changes nothing there."

use futures_util::FutureExt;

use crate::ErrorKind;
use crate::conformance::courier::describe;
use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Mode, Rule};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Probe,
            "a probe of a fresh place is fine and stores nothing",
            |scene| changes_nothing(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Probe,
            "a probe notices that the server is gone",
            |scene| fails(scene, Mode::Refuse).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Probe,
            "a probe notices that the server hangs",
            |scene| fails(scene, Mode::Hang).boxed(),
        )
        .await;
}

async fn changes_nothing<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    if let Err(error) = courier.probe().await? {
        let seen = format!("where all is well, a probe gave {}", describe(&error));
        return Err(Stop::own(seen));
    }
    let count = scene.stored().await.len();
    if count > 0 {
        return Err(Stop::own(format!("a probe left {count} events behind")));
    }
    let batch = scene.batch(3, 2);
    courier.deliver_all(&batch).await?;
    scene.verify(courier.connector(), &batch).await
}

async fn fails<D: Destination>(scene: &Scene<'_, D>, mode: Mode) -> Finding {
    let proxy = scene.network().await?;
    let mut courier = scene.courier_via(&proxy);
    proxy.set(mode);
    match courier.probe().await? {
        Ok(()) => Err(Stop::own(format!(
            "a probe was fine although the network was in mode {mode:?}"
        ))),
        Err(error) if error.kind() == ErrorKind::Unavailable => Ok(()),
        Err(error) => Err(Stop::broken(
            Rule::Outage,
            format!("in mode {mode:?}, a probe gave {}", describe(&error)),
        )),
    }
}
