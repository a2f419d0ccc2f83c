use futures_util::FutureExt;
use outbox::{Event, Filter, Txid};
use outbox_sinks::BatchLimits;

use super::*;
use crate::store::PageEnd;

fn head(newest: u64) -> Head {
    Head {
        horizon: Txid(newest + 1),
        newest: Some(at(newest)),
        operation: 0,
        history: 0,
    }
}

fn at(txid: u64) -> Position {
    Position::new(txid, 1)
}

fn page(events: std::ops::RangeInclusive<u64>, ended_by: PageEnd) -> Page {
    let end = at(*events.end());
    let event = |txid: u64| {
        let topic = if txid.is_multiple_of(4) { "b.x" } else { "a.x" };
        Event::new(at(txid), topic, "x".repeat(100))
    };
    Page {
        events: events.map(event).collect(),
        end,
        ended_by,
    }
}

fn follower(head: &HeadReceiver, position: u64) -> Follower {
    Follower::start(head.clone(), at(position), 0)
}

/// Takes what is shared, within limits, and returns which events it was.
fn take(follower: &mut Follower, room: BatchLimits) -> Option<(Vec<u64>, PageEnd)> {
    let page = follower.shared(&Filter::default(), room)?;
    follower.go_to(page.end);
    let events = page.events.iter().map(|it| it.position().txid.0).collect();
    Some((events, page.ended_by))
}

#[test]
fn each_loop_takes_from_a_page_what_it_has_not_seen_within_its_limits() {
    let known = HeadReceiver::default();
    known.tell(head(0), None);
    known.tell(head(6), Some(page(1..=6, PageEnd::Horizon)));
    let (mut one, mut other) = (follower(&known, 0), follower(&known, 4));
    let room = BatchLimits::default();
    assert_eq!(
        take(&mut one, room.max_events(2)),
        Some((vec![1, 2], PageEnd::Rows))
    );
    assert_eq!(
        take(&mut one, room.max_bytes(350)),
        Some((vec![3, 4, 5], PageEnd::Bytes))
    );
    assert_eq!(
        take(&mut one, room.max_bytes(1)),
        Some((vec![6], PageEnd::Horizon))
    );
    assert_eq!(take(&mut one, room), None);
    assert_eq!(take(&mut other, room), Some((vec![5, 6], PageEnd::Horizon)));
}

#[test]
fn a_filter_passes_over_what_it_does_not_take_and_pins_no_page_for_little() {
    let known = HeadReceiver::default();
    known.tell(head(0), None);
    known.tell(head(9), Some(page(1..=9, PageEnd::Horizon)));
    let narrow = Filter {
        types: vec!["b.*".parse().unwrap()],
        tenants: Vec::new(),
    };
    let room = BatchLimits::default();
    let place = follower(&known, 0);
    let all = place.shared(&Filter::default(), room).unwrap();
    let few = place.shared(&narrow, room).unwrap();
    let one = place.shared(&narrow, room.max_events(1)).unwrap();
    let positions = |page: &Page| page.events.iter().map(Event::position).collect::<Vec<_>>();
    assert_eq!(positions(&few), [at(4), at(8)]);
    assert_eq!((few.end, few.ended_by), (at(9), PageEnd::Horizon));
    // Up to the next one that it takes.
    assert_eq!((one.end, one.ended_by), (at(7), PageEnd::Rows));
    let place_of = |event: &Event| event.payload().as_ptr();
    let whole = place.shared(&Filter::default(), room).unwrap();
    assert_eq!(place_of(&all.events[3]), place_of(&whole.events[3]));
    assert_ne!(place_of(&all.events[3]), place_of(&few.events[0]));
}

#[test]
fn a_loop_before_a_gap_finds_no_page() {
    let known = HeadReceiver::default();
    known.tell(head(0), None);
    known.tell(head(3), Some(page(1..=3, PageEnd::Horizon)));
    // A look that read nothing, for nobody was near.
    known.tell(head(5), None);
    known.tell(head(8), Some(page(6..=8, PageEnd::Horizon)));
    let room = BatchLimits::default();
    let mut before = follower(&known, 0);
    // A page with another one after it is not the end.
    assert_eq!(
        take(&mut before, room),
        Some((vec![1, 2, 3], PageEnd::Rows))
    );
    assert_eq!(take(&mut before, room), None, "4 and 5 are not there");
    let within = follower(&known, 4).shared(&Filter::default(), room);
    assert!(within.is_none(), "nor is 5 alone");
    assert_eq!(
        take(&mut follower(&known, 5), room),
        Some((vec![6, 7, 8], PageEnd::Horizon))
    );
}

#[test]
fn pages_of_another_history_are_forgotten() {
    let known = HeadReceiver::default();
    known.tell(head(0), None);
    known.tell(head(3), Some(page(1..=3, PageEnd::Horizon)));
    let place = follower(&known, 1);
    let room = BatchLimits::default();
    assert!(place.shared(&Filter::default(), room).is_some());
    let later = Follower::start(known.clone(), at(1), 1);
    assert!(later.shared(&Filter::default(), room).is_none());
    let next = Head {
        history: 1,
        ..head(2)
    };
    // It began where the other history ended.
    known.tell(next, Some(page(2..=2, PageEnd::Horizon)));
    assert!(place.shared(&Filter::default(), room).is_none());
    assert!(later.shared(&Filter::default(), room).is_none());
    assert_eq!(later.more().now_or_never(), Some(next));
    assert_eq!(place.more().now_or_never(), Some(next), "to begin anew");
}

#[test]
fn old_pages_make_room_for_new_ones() {
    let known = HeadReceiver::default();
    known.tell(head(0), None);
    let (slow, mut quick) = (follower(&known, 0), follower(&known, 0));
    let room = BatchLimits::default();
    for first in (1..100_000).step_by(1_000) {
        assert_eq!(known.known().reads_on(), Some(at(first - 1)));
        let next = page(first..=first + 999, PageEnd::Horizon);
        known.tell(head(first + 999), Some(next));
        assert_eq!(take(&mut quick, room).unwrap().0.len(), 1_000);
    }
    assert!(slow.shared(&Filter::default(), room).is_none());
    assert!(known.known().pages.bytes() <= 9 << 20);
    assert!(slow.more().now_or_never().is_some(), "it reads for itself");
    drop(quick);
    assert_eq!(known.known().reads_on(), None, "nobody is near");
}

#[test]
fn what_a_full_page_left_is_waited_for() {
    let known = HeadReceiver::default();
    known.tell(head(0), None);
    let mut place = follower(&known, 0);
    known.tell(head(9), Some(page(1..=4, PageEnd::Rows)));
    assert!(place.more().now_or_never().is_some());
    let room = BatchLimits::default();
    assert_eq!(
        take(&mut place, room),
        Some((vec![1, 2, 3, 4], PageEnd::Rows))
    );
    assert!(
        place.more().now_or_never().is_none(),
        "the next look brings it"
    );
    assert_eq!(known.known().reads_on(), Some(at(4)));
    known.tell(head(9), Some(page(5..=9, PageEnd::Horizon)));
    assert_eq!(take(&mut place, room).unwrap().0, [5, 6, 7, 8, 9]);
}

#[test]
fn rows_that_were_deleted_do_not_move_the_head_back() {
    let known = HeadReceiver::default();
    known.tell(head(9), None);
    let empty = Head {
        newest: None,
        ..head(9)
    };
    known.tell(empty, None);
    assert_eq!(known.last(), Some(head(9)));
}
