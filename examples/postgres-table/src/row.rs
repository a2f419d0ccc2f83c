//! Events as rows.

use std::collections::HashMap;

use outbox_sinks::{Encoder, Event, Position, Refusal, Template};

/// A B-tree entry must fit into a third of a page.
const MAX_KEY_BYTES: usize = 2_000;

/// The columns of some rows, one entry a row: they travel as arrays in one statement.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) keys: Vec<String>,
    pub(crate) ids: Vec<String>,
    pub(crate) types: Vec<String>,
    pub(crate) tenants: Vec<String>,
    pub(crate) subjects: Vec<String>,
    pub(crate) txids: Vec<i64>,
    pub(crate) seqs: Vec<i64>,
    pub(crate) bodies: Vec<String>,
}

impl Rows {
    fn push(&mut self, key: String, event: &Event, body: String) {
        let Position { txid, seq } = event.position();
        self.keys.push(key);
        self.ids.push(event.id().to_owned());
        self.types.push(event.event_type().to_owned());
        self.tenants.push(event.tenant_id().to_owned());
        self.subjects.push(event.subject().to_owned());
        self.txids.push(i64::try_from(txid.0).unwrap_or(i64::MAX));
        self.seqs.push(seq);
        self.bodies.push(body);
    }
}

/// What of a batch becomes rows.
#[derive(Debug)]
pub(crate) struct Written {
    /// The rows: of several events with one key the last.
    pub(crate) rows: Rows,
    /// How many events they stand for, from the first on.
    pub(crate) events: usize,
    /// The last of these.
    pub(crate) end: Option<Position>,
    /// Why the next one can never be a row.
    pub(crate) refusal: Option<Refusal>,
}

/// Turns events into rows, up to the first that can never be one: a position covers nothing
/// that is not stored, so what follows that event has to wait until it is settled.
pub(crate) fn rows(events: &[Event], key: &Template, encoder: &Encoder) -> Written {
    let (mut latest, mut refusal) = (HashMap::new(), None);
    let mut written = 0;
    for event in events {
        match row(event, key, encoder) {
            Ok((key, body)) => drop(latest.insert(key, (event, body))),
            Err(why) => {
                refusal = Some(why);
                break;
            }
        }
        written += 1;
    }
    let end = events.get(..written).and_then(<[Event]>::last);
    // In their order, for those who look at the order of insertion.
    let mut latest: Vec<_> = latest.into_iter().collect();
    latest.sort_by_key(|(_, (event, _))| event.position());
    let mut rows = Rows::default();
    for (key, (event, body)) in latest {
        rows.push(key, event, body);
    }
    Written {
        rows,
        events: written,
        end: end.map(Event::position),
        refusal,
    }
}

fn row(event: &Event, key: &Template, encoder: &Encoder) -> Result<(String, String), Refusal> {
    let key = key.render(event)?;
    if key.len() > MAX_KEY_BYTES {
        let reason = format!(
            "the key has {} bytes, {MAX_KEY_BYTES} are allowed",
            key.len()
        );
        return Err(Refusal::new("KEY_TOO_LONG", reason));
    }
    let mut body = Vec::with_capacity(event.payload().len() + 64);
    encoder.encode(event, &mut body)?;
    let body = String::from_utf8(body).expect("an event is written as text");
    let texts = [
        &key,
        event.id(),
        event.event_type(),
        event.tenant_id(),
        event.subject(),
    ];
    if texts.iter().any(|text| text.contains('\0')) {
        return Err(Refusal::new(
            "NUL_IN_TEXT",
            "Postgres stores no text with the character U+0000",
        ));
    }
    Ok((key, body))
}
