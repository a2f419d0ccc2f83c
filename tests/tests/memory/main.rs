//! Memory is bounded in bytes, whatever the payloads: measured in a process of
//! its own, by what the kernel says.
#![cfg(test)]

#[path = "../database/fixture.rs"]
#[allow(
    dead_code,
    reason = "this binary needs little of what the tests of the database share"
)]
mod fixture;

use outbox::{Filter, PageRequest, Position};
use outbox_tests::servers::PostgresVersion;

use crate::fixture::Outbox;

const MIB: usize = 1 << 20;

/// The most memory since the last call, in bytes, and then starts anew.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    kib * 1024
}

#[tokio::test]
async fn a_page_of_large_events_costs_its_bytes_and_one_row() {
    let outbox = Outbox::new(PostgresVersion::Newest).await;
    // Small ones first, so that the reader asks for a thousand of the large ones.
    outbox
        .run(
            "insert into {s}.outbox (topic, payload)
             select 'a.b', jsonb_build_object('id', n, 'type', 'a.b') from generate_series(1, 30000) as n;
             insert into {s}.outbox (topic, payload)
             select 'a.b', jsonb_build_object('id', n, 'type', 'a.b', 'data', repeat('x', 1048576))
             from generate_series(1, 300) as n",
        )
        .await;
    let head = outbox.head_after_now().await;
    let mut reader = outbox.reader(&Filter::default()).await;
    let max_bytes = 4 * MIB;
    let (mut after, mut large, mut most) = (Position::BEGINNING, 0, 0);
    peak();
    let before = peak();
    loop {
        let request = PageRequest {
            after,
            horizon: head.horizon,
            max_events: 1_000,
            max_bytes,
        };
        let page = reader.read(request).await.unwrap();
        large += page
            .events
            .iter()
            .filter(|event| event.payload().len() > MIB)
            .count();
        after = page.end;
        most = most.max(peak());
        if page.exhausted {
            break;
        }
    }
    assert_eq!(large, 300);
    // The page, a row in hand, the connection's buffer of up to two rows, and slack.
    let grown = most.saturating_sub(before);
    assert!(grown < max_bytes + 8 * MIB, "{} MiB", grown / MIB);
}
