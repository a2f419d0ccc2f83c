//! Whatever an event holds, it is the event's own matter: `Verdict` and `ErrorKind::Failed`
//! are about events, the other kinds are not.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use outbox::{Event, Position};

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
    for payload in MALFORMED {
        let event = scene.draft(0).with_payload(payload);
        among_good_ones(scene, event, &format!("the payload `{payload}`")).await?;
    }
    let not_text = vec![0xff, 0xfe].into();
    let position = scene.draft(0).position();
    let event = Event::from_bytes(position, "node.checked".into(), &not_text);
    among_good_ones(scene, event, "bytes that are no text").await
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
    for (what, change) in ODD {
        let event = change(scene.draft(0)).event();
        among_good_ones(scene, event, what).await?;
    }
    Ok(())
}

/// Delivers the event before two others.
async fn among_good_ones<D: Destination>(scene: &Scene<'_, D>, odd: Event, what: &str) -> Finding {
    let mut courier = scene.courier();
    let suspects: BTreeSet<Position> = [odd.position()].into();
    let batch = batch(vec![odd, scene.draft(1).event(), scene.draft(2).event()]);
    let settled = settle(scene, &mut courier, &batch, &suspects, Rule::Input);
    let settled = settled.await.map_err(|stop| with(what, stop))?;
    let delivered = settled.delivered.into_iter();
    let delivered: Vec<_> = delivered.filter(|event| event.defect().is_none()).collect();
    let verified = scene.verify(courier.connector(), &delivered).await;
    verified.map_err(|stop| with(what, stop))
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
