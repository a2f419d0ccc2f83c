//! `Connector::stores_position`: "store `Session::progress` of the last event that is stored,
//! and cover nothing that is not. What comes behind an event that is undeliverable or refused
//! is unconfirmed. A batch apart is not covered."

use futures_util::FutureExt;
use outbox::{Event, Flow, Position};

use crate::conformance::courier::{Courier, describe};
use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::{Scene, batch};
use crate::conformance::stored;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};
use crate::{Batch, ErrorKind, Progress, Verdict};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Progress,
            "what is stored is covered, and nothing else",
            |scene| covered(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Progress,
            "an event that can never be sent is not covered",
            |scene| behind_undeliverable(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Progress,
            "an event that is refused is not covered",
            |scene| behind_refused(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Progress,
            "after a seek everything is stored again",
            |scene| sought(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Progress,
            "a position of another outbox is never taken for one's own",
            |scene| elsewhere(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Progress,
            "an owner with an older lease is fenced off",
            |scene| fenced(scene).boxed(),
        )
        .await;
}

/// Somebody who delivers, if the destination stores its position.
fn courier<D: Destination>(scene: &Scene<'_, D>) -> Finding<Courier> {
    let courier = scene.courier();
    if courier.connector().stores_position() {
        Ok(courier)
    } else {
        Err(Stop::not_applicable("the destination stores no position"))
    }
}

/// Who stores a position has to say so, or nobody ever asks for it.
async fn declared<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    if courier.connector().stores_position() {
        return Ok(());
    }
    courier.deliver_all(&scene.batch(3, 2)).await?;
    match courier.ask_anyway().await? {
        None => Ok(()),
        Some(_) => Err(Stop::own(
            "`Sink::progress` tells a position, and `Connector::stores_position` says that none is stored",
        )),
    }
}

/// A sink that is opened anew is told this position, as the runtime is.
async fn is_at(courier: &mut Courier, expected: Option<Position>) -> Finding {
    courier.abandon();
    if let Err(error) = courier.open().await? {
        return Err(Stop::own(format!(
            "a sink can't be opened anew: {}",
            describe(&error)
        )));
    }
    let position = courier.told().map(Progress::position);
    if position == expected {
        return Ok(());
    }
    let shown = |position: Option<Position>| {
        position.map_or_else(|| "nothing".to_owned(), |position| position.to_string())
    };
    let (seen, expected) = (shown(position), shown(expected));
    Err(Stop::own(format!(
        "the progress covers {seen}, and {expected} is stored"
    )))
}

async fn covered<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    declared(scene).await?;
    let mut courier = courier(scene)?;
    is_at(&mut courier, None).await?;
    let (first, second) = (scene.batch(5, 2), scene.batch(5, 2));
    courier.deliver_all(&first).await?;
    is_at(&mut courier, Some(first.end())).await?;
    // As after an answer that was lost, and by a newer owner.
    courier.abandon();
    courier.take_over(2);
    is_at(&mut courier, Some(first.end())).await?;
    courier.deliver_all(&first).await?;
    courier.deliver_all(&second).await?;
    let ahead = scene.batch(1, 2).apart();
    courier.deliver_all(&ahead).await?;
    is_at(&mut courier, Some(second.end())).await?;
    let dead = first.slice(2..3).expect("there are five events");
    let again = dead.first().clone().as_replay(1);
    courier.deliver_all(&batch(vec![again]).apart()).await?;
    is_at(&mut courier, Some(second.end())).await?;
    let all = first.iter().chain(&second).chain(&ahead);
    let events: Vec<_> = all.cloned().collect();
    scene.verify(courier.connector(), &events).await
}

async fn behind_undeliverable<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = courier(scene)?;
    let mut events = scene.events(2, 2);
    let Some(bad) = scene.destination.undeliverable(scene.draft(0)) else {
        return Err(Stop::not_applicable(
            "no event is known that can never be sent (`Destination::undeliverable`)",
        ));
    };
    let rest = scene.events(2, 2);
    let whole = [events.clone(), vec![bad], rest.clone()].concat();
    let verdicts = match courier.deliver(&batch(whole)).await? {
        Ok(verdicts) => verdicts,
        Err(error) => {
            let seen = format!(
                "an event that can never be sent came to {}",
                describe(&error)
            );
            return Err(Stop::broken(Rule::Verdicts, seen));
        }
    };
    let behind = verdicts.get(3..).unwrap_or_default();
    if behind
        .iter()
        .any(|verdict| *verdict != Verdict::Unconfirmed)
    {
        return Err(Stop::own(
            "what comes behind an event that can never be sent is not unconfirmed: if the process \
             died now, the position would have skipped that event",
        ));
    }
    is_at(&mut courier, events.last().map(Event::position)).await?;
    courier.deliver_all(&batch(rest.clone())).await?;
    events.extend(rest);
    scene.verify(courier.connector(), &events).await
}

/// The same with an event that the destination refuses. The delivery may fail as a whole,
/// and then each event is tried alone.
async fn behind_refused<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = courier(scene)?;
    let mut events = scene.events(2, 2);
    let Some(bad) = scene.destination.refused(scene.draft(0)) else {
        return Err(Stop::not_applicable(
            "no event is known that the destination refuses (`Destination::refused`)",
        ));
    };
    let rest = scene.events(2, 2);
    let whole = [events.clone(), vec![bad], rest.clone()].concat();
    let covered = match courier.deliver(&batch(whole.clone())).await? {
        Ok(verdicts) => {
            let is_delivered = |verdict: &Verdict| *verdict == Verdict::Delivered;
            if verdicts.iter().skip(events.len()).any(is_delivered) {
                return Err(Stop::own(
                    "an event that is refused is delivered, or one behind it: if the process \
                     died now, the position would have skipped it (or `Destination::refused` \
                     has made an event that is taken)",
                ));
            }
            verdicts.iter().take_while(|it| is_delivered(it)).count()
        }
        Err(error) if error.kind() == ErrorKind::Failed => {
            let there = scene.stored().await;
            let is_there = |event: &&Event| stored::copies(event, &there) > 0;
            whole.iter().take_while(is_there).count()
        }
        Err(error) => {
            let seen = format!("an event that is refused came to {}", describe(&error));
            return Err(Stop::broken(Rule::Blame, seen));
        }
    };
    let last = covered.checked_sub(1).and_then(|index| whole.get(index));
    is_at(&mut courier, last.map(Event::position)).await?;
    // As when it has become a dead letter.
    events.extend(rest);
    courier.deliver_all(&batch(events.clone())).await?;
    is_at(&mut courier, events.last().map(Event::position)).await?;
    scene.verify(courier.connector(), &events).await
}

async fn sought<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = courier(scene)?;
    let (first, second) = (scene.batch(4, 2), scene.batch(4, 2));
    courier.deliver_all(&second).await?;
    courier.abandon();
    courier.flow(Flow::new("1/1/1", 1));
    // What lies before the position of the old flow was never stored.
    courier.deliver_all(&first).await?;
    is_at(&mut courier, Some(first.end())).await?;
    let events: Vec<_> = first.iter().cloned().collect();
    let there = scene.stored().await;
    stored::complete(&events, &there)
}

async fn elsewhere<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = courier(scene)?;
    courier.flow(Flow::new("1/1/1", 0));
    let (first, second) = (scene.batch(4, 2), scene.batch(4, 2));
    courier.deliver_all(&first).await?;
    courier.abandon();
    courier.flow(Flow::new("2/2/2", 0));
    expect(&mut courier, &second, ErrorKind::Misconfigured).await?;
    scene.verify(courier.connector(), &first).await
}

async fn fenced<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let (mut older, mut newer) = (courier(scene)?, scene.courier());
    newer.take_over(2);
    let (first, second) = (scene.batch(4, 2), scene.batch(4, 2));
    older.deliver_all(&first).await?;
    newer.deliver_all(&second).await?;
    expect(&mut older, &second, ErrorKind::Fenced).await?;
    let events: Vec<_> = first.iter().chain(&second).cloned().collect();
    scene.verify(newer.connector(), &events).await
}

/// The delivery fails in this way.
async fn expect(courier: &mut Courier, batch: &Batch, kind: ErrorKind) -> Finding {
    let seen = match courier.deliver(batch).await? {
        Err(error) if error.kind() == kind => return Ok(()),
        Err(error) => describe(&error),
        Ok(_) => "verdicts".to_owned(),
    };
    Err(Stop::own(format!(
        "a delivery that must be `{kind}` came to {seen}"
    )))
}
