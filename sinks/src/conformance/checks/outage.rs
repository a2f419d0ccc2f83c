//! `ErrorKind::Unavailable`: "the destination can't be reached. Nothing is known against
//! any event"; `Verdict::Unconfirmed`: "it may have arrived or not" (OB-6).
//!
//! Each check breaks the network in one way, looks at what the sink says, mends it, and
//! goes on with the same sink: as the runtime does, until everything is delivered.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::sleep;

use crate::conformance::courier::{Answer, Courier, describe};
use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Mode, Proxy, Rule, stored};
use crate::{Batch, ErrorKind, Verdict};

/// How long a delivery is under way before the blow.
const UNDER_WAY: Duration = Duration::from_millis(150);

/// What happens to the network.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// Before a sink is opened.
    BeforeOpen(Mode),
    /// While a sink is open and idle; the mode stays.
    Idle(Mode),
    /// An idle connection is cut; new ones pass.
    IdleCut,
    /// In a delivery: nothing gets through, and then this.
    Amid(Mode),
    /// In a delivery: the work is done, and the word of it is lost.
    AnswersLost,
    /// In a delivery: slow, and then gone.
    SlowThenGone,
}

const BLOWS: &[(&str, Blow)] = &[
    (
        "the server is gone when a sink opens",
        Blow::BeforeOpen(Mode::Refuse),
    ),
    (
        "connections are reset when a sink opens",
        Blow::BeforeOpen(Mode::Reset),
    ),
    (
        "the server hangs when a sink opens",
        Blow::BeforeOpen(Mode::Hang),
    ),
    ("the connection is cut between deliveries", Blow::IdleCut),
    (
        "the server goes away between deliveries",
        Blow::Idle(Mode::Refuse),
    ),
    (
        "the connection is cut in a delivery",
        Blow::Amid(Mode::Refuse),
    ),
    (
        "the connection is reset in a delivery",
        Blow::Amid(Mode::Reset),
    ),
    ("the server hangs in a delivery", Blow::Idle(Mode::Hang)),
    (
        "a delivery is done and the word of it is lost",
        Blow::AnswersLost,
    ),
    (
        "a delivery is truncated in the middle",
        Blow::Idle(Mode::TruncateAfter(30_000)),
    ),
    ("a slow delivery is cut in the middle", Blow::SlowThenGone),
];

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    for (name, blow) in BLOWS {
        suite
            .check(Rule::Outage, name, |scene| survives(scene, *blow).boxed())
            .await;
    }
    suite
        .check(Rule::Outage, "a slow network is no outage", |scene| {
            slow(scene).boxed()
        })
        .await;
}

async fn survives<D: Destination>(scene: &Scene<'_, D>, blow: Blow) -> Finding {
    let proxy = scene.network().await?;
    let mut courier = scene.courier_via(&proxy);
    let mut events = Vec::new();
    if !matches!(blow, Blow::BeforeOpen(_)) {
        let before = scene.batch(6, 3);
        courier.deliver_all(&before).await?;
        events.extend(before.iter().cloned());
    }
    let batch = scene.large_batch(60, 7, 2_000);
    blow.strike_before(&proxy);
    let delivery = courier.deliver(&batch);
    let (answer, ()) = tokio::join!(delivery, blow.strike_amid(scene, &proxy, &batch));
    let answer = answer?;
    judge(scene, &batch, &answer).await?;
    if blow.lets_nothing_through() {
        met(&answer)?;
    }
    proxy.set(Mode::Pass);
    courier.recover(&batch).await?;
    let after = scene.batch(6, 3);
    courier.recover(&after).await?;
    events.extend(batch.iter().chain(&after).cloned());
    scene.verify(courier.connector(), &events).await
}

impl Blow {
    /// Whether nothing can be delivered while it lasts.
    const fn lets_nothing_through(self) -> bool {
        matches!(self, Self::BeforeOpen(_) | Self::Idle(Mode::Refuse))
    }

    fn strike_before(self, proxy: &Proxy) {
        match self {
            Self::BeforeOpen(mode) | Self::Idle(mode) => proxy.set(mode),
            Self::IdleCut => proxy.cut(),
            Self::Amid(_) => proxy.set(Mode::Hang),
            Self::AnswersLost => proxy.set(Mode::HoldAnswers),
            Self::SlowThenGone => proxy.set(Mode::Latency(UNDER_WAY / 3)),
        }
    }

    async fn strike_amid<D: Destination>(self, scene: &Scene<'_, D>, proxy: &Proxy, batch: &Batch) {
        match self {
            Self::BeforeOpen(_) | Self::Idle(_) | Self::IdleCut => {}
            Self::Amid(mode) => {
                sleep(UNDER_WAY).await;
                proxy.set(mode);
            }
            Self::AnswersLost => {
                until_some_arrived(scene, batch).await;
                proxy.set(Mode::Refuse);
            }
            Self::SlowThenGone => {
                sleep(UNDER_WAY).await;
                proxy.set(Mode::Refuse);
            }
        }
    }
}

/// Waits until the server has something of a batch; not for ever, since it may need an
/// answer before it gets there.
pub(super) async fn until_some_arrived<D: Destination>(scene: &Scene<'_, D>, batch: &Batch) {
    for _ in 0..10 {
        sleep(UNDER_WAY / 3).await;
        let there = scene.stored().await;
        if batch.iter().any(|event| stored::copies(event, &there) > 0) {
            // The rest of it, if there is more.
            sleep(UNDER_WAY).await;
            return;
        }
    }
}

/// In an outage the delivery is unavailable, or its events are unconfirmed; what is
/// reported as delivered is there.
pub(super) async fn judge<D: Destination>(
    scene: &Scene<'_, D>,
    batch: &Batch,
    answer: &Answer,
) -> Finding {
    match answer {
        Err(error) if error.kind() == ErrorKind::Unavailable => Ok(()),
        Err(error) => {
            let seen = format!("an outage was called {}", describe(error));
            Err(Stop::broken(Rule::Outage, seen))
        }
        Ok(verdicts) => {
            let blamed = verdicts.iter().find_map(|verdict| match verdict {
                Verdict::Undeliverable(refusal) => Some(("undeliverable", refusal)),
                Verdict::Refused(refusal) => Some(("refused", refusal)),
                Verdict::Delivered | Verdict::Unconfirmed => None,
            });
            if let Some((word, refusal)) = blamed {
                let seen = format!("in an outage an event was {word}: {refusal}");
                return Err(Stop::broken(Rule::Outage, seen));
            }
            stored::as_reported(batch, verdicts, &scene.stored().await)
        }
    }
}

/// While nothing gets through, nothing can be delivered.
pub(super) fn met(answer: &Answer) -> Finding {
    let delivered = |verdict: &Verdict| *verdict == Verdict::Delivered;
    match answer {
        Ok(verdicts) if verdicts.iter().all(delivered) => Err(Stop::broken(
            Rule::Outage,
            "everything was delivered although the network let nothing through: does the \
             connector go to `via`?",
        )),
        Ok(_) | Err(_) => Ok(()),
    }
}

async fn slow<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let proxy = scene.network().await?;
    let mut courier: Courier = scene.courier_via(&proxy);
    proxy.set(Mode::Latency(Duration::from_millis(10)));
    let batch = scene.batch(12, 4);
    courier.recover(&batch).await?;
    scene.verify(courier.connector(), &batch).await
}
