//! `ErrorKind::Misconfigured`: "it needs a person: bad credentials, no such topic, bucket
//! or stream", and the advice tells what to do.

use futures_util::FutureExt;

use crate::conformance::courier::{Courier, describe};
use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};
use crate::{ErrorKind, SinkError};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Configuration,
            "wrong credentials need a person",
            |scene| denied(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Configuration,
            "a place that does not exist needs a person",
            |scene| absent(scene).boxed(),
        )
        .await;
}

async fn denied<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let Some(connector) = scene.destination.denied(&scene.place) else {
        let why = "there are no wrong credentials (`Destination::denied`)";
        return Err(Stop::not_applicable(why));
    };
    needs_a_person(scene, scene.courier_with(connector)).await?;
    match scene.stored().await.len() {
        0 => Ok(()),
        count => Err(Stop::own(format!(
            "{count} events arrived with wrong credentials"
        ))),
    }
}

async fn absent<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let Some(connector) = scene.destination.absent() else {
        let why = "every place can be written to (`Destination::absent`)";
        return Err(Stop::not_applicable(why));
    };
    needs_a_person(scene, scene.courier_with(connector)).await
}

/// A delivery says so, and a probe if it sees it.
async fn needs_a_person<D: Destination>(scene: &Scene<'_, D>, mut courier: Courier) -> Finding {
    if let Err(error) = courier.probe().await? {
        says_what_to_do("a probe", &error)?;
    }
    match courier.deliver(&scene.batch(2, 2)).await? {
        Err(error) => says_what_to_do("a delivery", &error),
        Ok(verdicts) => Err(Stop::own(format!(
            "a delivery that can't succeed came to {:?}",
            verdicts.first()
        ))),
    }
}

fn says_what_to_do(what: &str, error: &SinkError) -> Finding {
    if error.kind() != ErrorKind::Misconfigured {
        let seen = format!("{what} gave {}", describe(error));
        return Err(Stop::own(seen));
    }
    match error.advice() {
        Some(advice) if !advice.trim().is_empty() => Ok(()),
        Some(_) | None => Err(Stop::own(format!(
            "{what} gave {} without advice",
            describe(error)
        ))),
    }
}
