//! Events in the format `native`, read back from the outside.

use outbox_sinks::conformance::Stored;
use serde_json::Value;

/// One event.
pub(crate) fn stored(body: &[u8]) -> Stored {
    let value: Value = serde_json::from_slice(body).expect("a destination holds whole events");
    let id = value["id"].as_str().expect("an event has an id");
    Stored::new(id, body)
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
    let lines = lines.filter(|line| serde_json::from_slice::<Value>(line).is_ok());
    lines.map(stored).collect()
}
