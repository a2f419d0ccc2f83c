//! `Verdict::Undeliverable`: "it can never be sent, and that is known without doubt".

use std::collections::BTreeSet;

use futures_util::FutureExt;

use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::{Scene, batch};
use crate::conformance::settle::settle;
use crate::conformance::stored;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Verdicts,
            "what can never be sent, first of a batch",
            |scene| one_among(scene, 0).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Verdicts,
            "what can never be sent, amid a batch",
            |scene| one_among(scene, 4).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Verdicts,
            "what can never be sent, last of a batch",
            |scene| one_among(scene, 8).boxed(),
        )
        .await;
}

/// Nine events of three keys, the one at `index` can never be sent.
async fn one_among<D: Destination>(scene: &Scene<'_, D>, index: usize) -> Finding {
    let mut courier = scene.courier();
    let mut events = Vec::new();
    for i in 0..9 {
        let draft = scene.draft(i % 3);
        if i != index {
            events.push(draft.event());
            continue;
        }
        let (position, event) = (draft.position(), scene.destination.undeliverable(draft));
        let Some(event) = event else {
            return Err(Stop::not_applicable(
                "no event is known that can never be sent (`Destination::undeliverable`)",
            ));
        };
        assert_eq!(
            event.position(),
            position,
            "the event must be made of the draft"
        );
        events.push(event);
    }
    let batch = batch(events);
    let poison = batch.get(index).expect("the batch has nine events");
    let suspects = BTreeSet::from([poison.position()]);
    let settled = settle(scene, &mut courier, &batch, &suspects, Rule::Verdicts).await?;
    if settled.undeliverable.len() != 1 {
        let became = if settled.delivered.len() == 9 {
            "delivered"
        } else {
            "refused"
        };
        return Err(Stop::own(format!(
            "the event that can never be sent was {became} instead of undeliverable"
        )));
    }
    let there = scene.stored().await;
    if stored::copies(poison, &there) > 0 {
        return Err(Stop::own("an event was undeliverable, and is there"));
    }
    scene.verify(courier.connector(), &settled.delivered).await
}
