//! `Verdict::Refused`: "the destination would not take this one. In doubt an error of the
//! whole delivery is better, which blames nobody."

use std::collections::BTreeSet;

use futures_util::FutureExt;
use outbox::Event;

use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::{Scene, batch};
use crate::conformance::settle::settle;
use crate::conformance::stored;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Blame,
            "an event that is refused has no part in others' fate",
            |scene| refused_among(scene, &[4]).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Blame,
            "two events that are refused are found",
            |scene| refused_among(scene, &[0, 7]).boxed(),
        )
        .await;
}

/// Twelve events of three keys, those at `indices` are refused.
async fn refused_among<D: Destination>(scene: &Scene<'_, D>, indices: &[usize]) -> Finding {
    let mut courier = scene.courier();
    let (mut events, mut suspects) = (Vec::new(), BTreeSet::new());
    for i in 0..12 {
        let draft = scene.draft(i % 3);
        if !indices.contains(&i) {
            events.push(draft.event());
            continue;
        }
        let (position, event) = (draft.position(), scene.destination.refused(draft));
        let Some(event) = event else {
            return Err(Stop::not_applicable(
                "no event is known that the destination refuses (`Destination::refused`)",
            ));
        };
        assert_eq!(
            event.position(),
            position,
            "the event must be made of the draft"
        );
        suspects.insert(position);
        events.push(event);
    }
    let batch = batch(events);
    let settled = settle(scene, &mut courier, &batch, &suspects, Rule::Blame).await?;
    let there = scene.stored().await;
    let taken = |event: &&Event| suspects.contains(&event.position());
    for event in settled.delivered.iter().filter(taken) {
        if stored::copies(event, &there) > 0 {
            let position = event.position();
            return Err(Stop::own(format!(
                "the destination took the event at {position}, which `Destination::refused` has \
                 made: it is to make one that is not taken"
            )));
        }
    }
    let found = settled.undeliverable.len() + settled.refused.len();
    if found != indices.len() {
        let lost = indices.len() - found;
        return Err(Stop::broken(
            Rule::Durability,
            format!("{lost} events that the destination refuses were reported as delivered"),
        ));
    }
    scene.verify(courier.connector(), &settled.delivered).await
}
