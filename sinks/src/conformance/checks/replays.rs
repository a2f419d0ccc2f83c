//! `Batch::is_apart`: "a replay of dead letters, or one event ahead of its turn. Such a
//! batch says nothing about what came before it." "A dead letter that is replayed has the
//! same id as well: it must arrive even where repetitions are dropped."

use futures_util::FutureExt;
use outbox::Event;

use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::{Scene, batch};
use crate::conformance::stored;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Repetitions, Rule};
use crate::{Batch, Connector};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Replays,
            "a dead letter arrives when it is replayed",
            |scene| dead_letter(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Replays,
            "what was delivered arrives again when it is replayed",
            |scene| delivered_before(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Replays,
            "an event ahead of its turn does not stop the others",
            |scene| ahead(scene).boxed(),
        )
        .await;
}

/// Six events without the third, and the third after them, twice.
async fn dead_letter<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    let mut events = scene.events(6, 2);
    let dead = events.remove(2);
    courier.deliver_all(&batch(events.clone())).await?;
    for replay in 1..=2 {
        let again = batch(vec![dead.clone().as_replay(replay)]).apart();
        courier.deliver_all(&again).await?;
        arrived(scene, &dead, usize::try_from(replay).unwrap_or(usize::MAX)).await?;
    }
    let after = scene.batch(3, 2);
    courier.deliver_all(&after).await?;
    events.extend(after.iter().cloned());
    scene.verify(courier.connector(), &events).await
}

async fn delivered_before<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    let events = scene.events(6, 2);
    courier.deliver_all(&batch(events.clone())).await?;
    let fourth = events.get(3).expect("there are six events");
    for replay in 1..=2 {
        let again = batch(vec![fourth.clone().as_replay(replay)]).apart();
        courier.deliver_all(&again).await?;
        arrived(
            scene,
            fourth,
            1 + usize::try_from(replay).unwrap_or(usize::MAX),
        )
        .await?;
    }
    let there = scene.stored().await;
    stored::complete(&events, &there)?;
    stored::in_order(courier.connector(), &events, &there)
}

/// The event is there so many times, or once where copies become one. Where they are kept
/// it may be there more often, since a delivery may have been repeated.
async fn arrived<D: Destination>(scene: &Scene<'_, D>, event: &Event, times: usize) -> Finding {
    let (least, most) = match scene.destination.repetitions() {
        Repetitions::Kept => (times, usize::MAX),
        Repetitions::Dropped => (times, times),
        Repetitions::Merged => (1, 1),
    };
    let there = stored::copies(event, &scene.stored().await);
    if (least..=most).contains(&there) {
        return Ok(());
    }
    Err(Stop::own(format!(
        "an event whose replay was reported as delivered is there {there} times instead of \
         {least}"
    )))
}

/// The last of three goes first, of a key of its own; then all three in their turn.
async fn ahead<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    let before = scene.batch(4, 2);
    courier.deliver_all(&before).await?;
    let turn = scene.batch(3, 3);
    if shares_a_key(courier.connector(), &turn) {
        return Err(Stop::not_applicable(
            "one key holds all of these events, and nothing of it goes ahead of its turn",
        ));
    }
    let last = turn.slice(2..3).expect("there are three events").apart();
    courier.deliver_all(&last).await?;
    courier.deliver_all(&turn).await?;
    let events: Vec<_> = before.iter().chain(&turn).cloned().collect();
    scene.verify(courier.connector(), &events).await
}

/// Whether the last event has the key of one before it.
fn shares_a_key(connector: &dyn Connector, batch: &Batch) -> bool {
    let last = connector.key(batch.last());
    let mut before = batch.iter().take(batch.len() - 1);
    before.any(|event| connector.key(event) == last)
}
