//! Judges what lies at the destination.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outbox::Event;

use super::finding::{Finding, Stop};
use super::{Repetitions, Rule, Stored};
use crate::{Connector, Verdict};

/// Events that were reported as delivered are all there.
pub(super) fn complete(events: &[Event], stored: &[Stored]) -> Finding {
    let there: BTreeSet<&str> = stored.iter().map(|stored| stored.id.as_str()).collect();
    let mut missing = events.iter().filter(|event| !there.contains(event.id()));
    let Some(first) = missing.next() else {
        return Ok(());
    };
    let (count, all) = (1 + missing.count(), events.len());
    let position = first.position();
    let seen = format!(
        "{count} of {all} events that were reported as delivered are not there; the first is the \
         one at {position}"
    );
    Err(Stop::broken(Rule::Durability, seen))
}

/// What an answer reports as delivered is there.
pub(super) fn as_reported(events: &[Event], verdicts: &[Verdict], stored: &[Stored]) -> Finding {
    let delivered = events.iter().zip(verdicts);
    let delivered: Vec<_> = delivered
        .filter(|(_, verdict)| **verdict == Verdict::Delivered)
        .map(|(event, _)| event.clone())
        .collect();
    complete(&delivered, stored)
}

/// The first copies of the events of one key lie in outbox order (OB-4). Whatever else
/// lies there is passed over.
pub(super) fn in_order(connector: &dyn Connector, events: &[Event], stored: &[Stored]) -> Finding {
    let by_id: HashMap<&str, &Event> = events.iter().map(|event| (event.id(), event)).collect();
    let mut seen = BTreeSet::new();
    let mut newest: BTreeMap<String, &Event> = BTreeMap::new();
    for stored in stored {
        let Some(event) = by_id.get(stored.id.as_str()) else {
            continue;
        };
        if !seen.insert(event.id()) {
            continue;
        }
        let key = connector.key(event).into_owned();
        if let Some(before) = newest.insert(key, event)
            && before.position() > event.position()
        {
            let (late, early) = (event.position(), before.position());
            let seen = format!("the event at {late} lies behind the one at {early} of its key");
            return Err(Stop::broken(Rule::Order, seen));
        }
    }
    Ok(())
}

/// Every body holds its event's data, byte for byte (OB-9).
pub(super) fn unchanged(events: &[Event], stored: &[Stored]) -> Finding {
    let by_id: HashMap<&str, &Event> = events.iter().map(|event| (event.id(), event)).collect();
    for stored in stored {
        let Some(event) = by_id.get(stored.id.as_str()) else {
            continue;
        };
        if !String::from_utf8_lossy(&stored.body).contains(event.data()) {
            let (position, bytes) = (event.position(), event.data().len());
            let seen = format!(
                "the body of the event at {position} does not hold the {bytes} bytes of its data"
            );
            return Err(Stop::broken(Rule::Payload, seen));
        }
    }
    Ok(())
}

/// Where repetitions are not kept, every event is there once.
pub(super) fn once_where_promised(
    repetitions: Repetitions,
    events: &[Event],
    stored: &[Stored],
) -> Finding {
    match repetitions {
        Repetitions::Kept => Ok(()),
        Repetitions::Dropped | Repetitions::Merged => once(Rule::Redelivery, events, stored),
    }
}

/// No event is there more than once.
pub(super) fn once(rule: Rule, events: &[Event], stored: &[Stored]) -> Finding {
    for event in events {
        let copies = copies(event, stored);
        if copies > 1 {
            let position = event.position();
            let seen = format!("the event at {position} is there {copies} times");
            return Err(Stop::broken(rule, seen));
        }
    }
    Ok(())
}

/// How often an event is there.
pub(super) fn copies(event: &Event, stored: &[Stored]) -> usize {
    let is_it = |stored: &&Stored| stored.id == event.id();
    stored.iter().filter(is_it).count()
}
