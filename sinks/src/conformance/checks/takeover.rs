//! "`open` is called anew for each lease, and may be called again under the same one";
//! "a sink that panicked or missed its deadline is dropped instead" of closed. And a holder
//! that lost its lease without knowing may deliver for a while beside its successor.

use futures_util::FutureExt;

use crate::conformance::courier::{Courier, describe};
use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};
use crate::{Batch, ErrorKind, Verdict};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Takeover,
            "after a drop without a close, the same lease goes on",
            |scene| again(scene, 1).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Takeover,
            "after a drop without a close, a newer lease goes on",
            |scene| again(scene, 2).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Takeover,
            "a newer owner goes on beside an older one",
            |scene| beside(scene).boxed(),
        )
        .await;
}

/// The last batch was delivered and the cursor not saved: it comes again.
async fn again<D: Destination>(scene: &Scene<'_, D>, token: i64) -> Finding {
    let mut courier = scene.courier();
    let (first, second) = (scene.batch(9, 3), scene.batch(9, 3));
    courier.deliver_all(&first).await?;
    courier.deliver_all(&second).await?;
    courier.abandon();
    courier.take_over(token);
    courier.deliver_all(&second).await?;
    // And again in another process, where nothing is known of this connector.
    courier = scene.courier();
    courier.take_over(token + 1);
    courier.deliver_all(&second).await?;
    let third = scene.batch(9, 3);
    courier.deliver_all(&third).await?;
    let events: Vec<_> = first.iter().chain(&second).chain(&third).cloned().collect();
    scene.verify(courier.connector(), &events).await
}

async fn beside<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let (mut older, mut newer) = (scene.courier(), scene.courier());
    newer.take_over(2);
    let (first, second) = (scene.batch(9, 3), scene.batch(9, 3));
    older.deliver_all(&first).await?;
    // A destination may let in one owner at a time: then the newer one waits.
    let waits = match newer.deliver(&second).await? {
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::Unavailable => true,
        Err(error) => {
            let seen = format!(
                "beside an older owner, a newer one got {}",
                describe(&error)
            );
            return Err(Stop::own(seen));
        }
    };
    if waits {
        older.abandon();
    }
    newer.deliver_all(&second).await?;
    if !waits {
        // It does not know yet that there is a newer one.
        late(&mut older, &second).await?;
        older.abandon();
    }
    let third = scene.batch(9, 3);
    newer.deliver_all(&third).await?;
    let events: Vec<_> = first.iter().chain(&second).chain(&third).cloned().collect();
    scene.verify(newer.connector(), &events).await
}

/// The older owner delivers what the newer one has delivered already: a repetition, or
/// it is fenced off.
async fn late(older: &mut Courier, batch: &Batch) -> Finding {
    match older.deliver(batch).await? {
        Ok(verdicts) => {
            let blames = |verdict: &&Verdict| {
                matches!(verdict, Verdict::Refused(_) | Verdict::Undeliverable(_))
            };
            match verdicts.iter().find(blames) {
                Some(verdict) => Err(Stop::own(format!("beside a newer owner: {verdict:?}"))),
                None => Ok(()),
            }
        }
        Err(error) => match error.kind() {
            ErrorKind::Fenced | ErrorKind::Unavailable => Ok(()),
            ErrorKind::Failed | ErrorKind::Misconfigured => Err(Stop::own(format!(
                "an older owner got {} instead of being fenced off",
                describe(&error)
            ))),
        },
    }
}
