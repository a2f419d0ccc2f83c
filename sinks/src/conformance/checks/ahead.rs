//! `Sink::deliver_ahead`: "may begin with the one that comes next meanwhile", "if `batch` is
//! not delivered as a whole, what was begun is taken back or awaited, and forgotten".

use futures_util::FutureExt;
use tokio::time::sleep;

use super::background::{STILLNESS, came};
use super::outage::{judge, met};
use crate::conformance::courier::{Answer, describe};
use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Mode, Rule};
use crate::{Event, Verdict};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Order,
            "batches that may be begun ahead arrive in order",
            |scene| in_order(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Background,
            "nothing of a batch that was begun ahead is sent after the one before has failed",
            |scene| nothing_follows(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Takeover,
            "a batch that was begun ahead comes again after its sink was dropped",
            |scene| comes_again(scene).boxed(),
        )
        .await;
}

async fn in_order<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    // Few keys and many, so that those of a batch are and are not known from the one before.
    let batches: Vec<_> = [(50, 7), (100, 7), (100, 90), (1, 1), (300, 200), (40, 3)]
        .into_iter()
        .map(|(events, subjects)| scene.batch(events, subjects))
        .collect();
    let mut next = batches.iter().skip(1);
    for batch in &batches {
        let answer = courier.deliver_ahead(batch, next.next()).await?;
        all_delivered(&answer)?;
    }
    let events: Vec<Event> = batches.iter().flatten().cloned().collect();
    scene.verify(courier.connector(), &events).await
}

fn all_delivered(answer: &Answer) -> Finding {
    match answer {
        Ok(verdicts) if verdicts.iter().all(|it| *it == Verdict::Delivered) => Ok(()),
        Ok(_) => Err(Stop::own("not all of a batch was delivered".to_owned())),
        Err(error) => Err(Stop::own(describe(error))),
    }
}

async fn nothing_follows<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let proxy = scene.network().await?;
    let mut courier = scene.courier_via(&proxy);
    let before = scene.batch(6, 3);
    courier.deliver_all(&before).await?;
    proxy.set(Mode::Refuse);
    let (batch, next) = (scene.batch(20, 4), scene.batch(20, 4));
    let answer = courier.deliver_ahead(&batch, Some(&next)).await?;
    judge(scene, &batch, &answer).await?;
    met(&answer)?;
    proxy.set(Mode::Pass);
    sleep(STILLNESS).await;
    let (came, all) = (came(scene, &next).await, next.len());
    if came > 0 {
        return Err(Stop::own(format!(
            "{came} of {all} events arrived that were begun ahead, although the batch before had \
             failed"
        )));
    }
    courier.recover(&batch).await?;
    courier.recover(&next).await?;
    let events = before.iter().chain(&batch).chain(&next);
    let events: Vec<Event> = events.cloned().collect();
    scene.verify(courier.connector(), &events).await
}

async fn comes_again<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    let (batch, next) = (scene.batch(20, 4), scene.batch(20, 4));
    let answer = courier.deliver_ahead(&batch, Some(&next)).await?;
    all_delivered(&answer)?;
    courier.abandon();
    courier.take_over(2);
    courier.deliver_all(&next).await?;
    let events: Vec<Event> = batch.iter().chain(&next).cloned().collect();
    scene.verify(courier.connector(), &events).await
}
