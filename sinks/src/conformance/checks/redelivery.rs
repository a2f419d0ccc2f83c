//! "An event may come twice (after a crash or a retry), with the same id."

use futures_util::FutureExt;

use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::{Scene, batch};
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Redelivery,
            "the same batch again loses nothing",
            |scene| same_again(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Redelivery,
            "a batch that overlaps the last one loses nothing",
            |scene| overlapping(scene).boxed(),
        )
        .await;
    suite
        .check(
            Rule::Redelivery,
            "halves and single events of a batch lose nothing",
            |scene| parts(scene).boxed(),
        )
        .await;
}

/// OB-8 as well: a frozen range that comes again changes nothing there.
async fn same_again<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    let batch = scene.batch(10, 3);
    courier.deliver_all(&batch).await?;
    let once = scene.stored().await;
    courier.deliver_all(&batch).await?;
    scene.verify(courier.connector(), &batch).await?;
    // In another process, where nothing is known of this connector.
    courier = scene.courier();
    courier.take_over(2);
    courier.deliver_all(&batch).await?;
    scene.verify(courier.connector(), &batch).await?;
    if courier.frozen() && scene.stored().await != once {
        return Err(Stop::own(
            "a frozen range that came again changed what is there",
        ));
    }
    Ok(())
}

/// What a new holder sends when the last one died before it had saved its cursor.
async fn overlapping<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    only_where_ranges_vary(courier.frozen())?;
    let events = scene.events(15, 3);
    let (first, second) = (batch(events.clone()), batch(events.clone()));
    let first = first.slice(0..10).expect("there are 15 events");
    let second = second.slice(5..15).expect("there are 15 events");
    courier.deliver_all(&first).await?;
    courier = scene.courier();
    courier.take_over(2);
    courier.deliver_all(&second).await?;
    scene.verify(courier.connector(), &events).await
}

/// What the runtime sends when it looks for the event that makes a batch fail.
async fn parts<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    only_where_ranges_vary(courier.frozen())?;
    let whole = scene.batch(12, 3);
    courier.deliver_all(&whole).await?;
    let (left, right) = whole.halves().expect("12 events have halves");
    courier.deliver_all(&left).await?;
    for index in 6..9 {
        let one = whole.slice(index..index + 1).expect("there are 12 events");
        courier.deliver_all(&one).await?;
    }
    courier.deliver_all(&right).await?;
    scene.verify(courier.connector(), &whole).await
}

fn only_where_ranges_vary(frozen: bool) -> Finding {
    match frozen {
        false => Ok(()),
        true => Err(Stop::not_applicable(
            "ranges are frozen: a batch comes again as it was",
        )),
    }
}
