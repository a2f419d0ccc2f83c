//! Whatever an event holds, it is the event's own matter: `Verdict` and `ErrorKind::Failed`
//! are about events, the other kinds are not.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use outbox::{Event, Position};

use crate::conformance::courier::Courier;
use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::{Scene, batch};
use crate::conformance::settle::settle;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Draft, Rule};

/// Payloads that are no event.
const MALFORMED: &[&str] = &[
    "",
    "null",
    "[1]",
    "{",
    "no JSON",
    r#"{"type":"node.checked"}"#,
    r#"{"id":5,"type":"node.checked"}"#,
];

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Input,
            "a payload that is no event stops nobody",
            |scene| malformed(scene).boxed(),
        )
        .await;
    suite
        .check(Rule::Input, "odd events stop nobody", |scene| {
            odd(scene).boxed()
        })
        .await;
}

async fn malformed<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut among = Among::new(scene);
    for payload in MALFORMED {
        let event = scene.draft(0).with_payload(payload);
        among
            .deliver(event, &format!("the payload `{payload}`"))
            .await?;
    }
    let not_text = vec![0xff, 0xfe].into();
    let position = scene.draft(0).position();
    let event = Event::from_bytes(position, Draft::EVENT_TYPE.into(), &not_text);
    among.deliver(event, "bytes that are no text").await?;
    among.end().await
}

type Change = fn(Draft) -> Draft;

/// Events that are one, and that nobody thought of.
const ODD: &[(&str, Change)] = &[
    ("no subject", Draft::without_subject),
    ("no tenant", Draft::without_tenant),
    ("no subject and no tenant", |draft| {
        draft.without_subject().without_tenant()
    }),
    ("a very long subject", |draft| {
        draft.with_subject("s".repeat(5_000))
    }),
    ("an odd subject", |draft| {
        draft.with_subject(" a\n.*>/../\u{0}\u{7f}ü\u{1f600}")
    }),
    ("an odd tenant", |draft| draft.with_tenant("../\"a\"\t*")),
    ("a type without a dot", |draft| draft.with_type("node")),
    ("an odd type", |draft| draft.with_type(".node..*. >")),
    ("the time `infinity`", |draft| draft.with_time("infinity")),
    ("no time", |draft| draft.with_time("")),
];

async fn odd<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut among = Among::new(scene);
    for (what, change) in ODD {
        let event = change(scene.draft(0)).event();
        among.deliver(event, what).await?;
    }
    among.end().await
}

/// Odd events among good ones.
struct Among<'s, 'd, D: Destination> {
    scene: &'s Scene<'d, D>,
    courier: Courier,
    delivered: Vec<Event>,
}

impl<'s, 'd, D: Destination> Among<'s, 'd, D> {
    fn new(scene: &'s Scene<'d, D>) -> Self {
        Self {
            scene,
            courier: scene.courier(),
            delivered: Vec::new(),
        }
    }

    /// Delivers an odd event before two good ones.
    async fn deliver(&mut self, odd: Event, what: &str) -> Finding {
        let suspects: BTreeSet<Position> = [odd.position()].into();
        let good = [1, 2].map(|subject| self.scene.draft(subject).event());
        let batch = batch([odd].into_iter().chain(good).collect());
        let settled = settle(
            self.scene,
            &mut self.courier,
            &batch,
            &suspects,
            Rule::Input,
        );
        let settled = settled.await.map_err(|stop| with(what, stop))?;
        self.delivered.extend(settled.delivered);
        Ok(())
    }

    /// All that was reported as delivered is there, the odd ones too.
    async fn end(self) -> Finding {
        let delivered = self.delivered.into_iter();
        let events: Vec<_> = delivered.filter(|event| event.defect().is_none()).collect();
        self.scene.verify(self.courier.connector(), &events).await
    }
}

/// The same, with what the event was.
fn with(what: &str, stop: Stop) -> Stop {
    match stop {
        Stop::Broken { rule, seen } => Stop::Broken {
            rule,
            seen: format!("with {what}: {seen}"),
        },
        Stop::NotApplicable(why) => Stop::NotApplicable(why),
    }
}
