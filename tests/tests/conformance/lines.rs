//! Events in the format `native`, read back from the outside.

use outbox_sinks::conformance::Stored;
use serde::Deserialize;

/// What is looked at: the rest may hold numbers that no type of ours holds.
#[derive(Deserialize)]
struct Event {
    id: String,
}

/// One event.
pub(crate) fn stored(body: &[u8]) -> Stored {
    let event: Event = serde_json::from_slice(body).expect("a destination holds whole events");
    Stored::new(event.id, body)
}

/// One event a line. A last line without an end was cut short, and is none.
pub(crate) fn all(text: &[u8]) -> Vec<Stored> {
    let end = text
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |end| end + 1);
    let lines = text
        .get(..end)
        .unwrap_or_default()
        .split(|&byte| byte == b'\n');
    let lines = lines.filter(|line| serde_json::from_slice::<Event>(line).is_ok());
    lines.map(stored).collect()
}
