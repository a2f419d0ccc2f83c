//! When a sink stops writing dead letters and is paused instead.

use outbox::{Position, Then};

use super::Step;
use crate::settings::{OnPoison, PoisonSettings};

/// How many more dead letters may be written, `recent` of them having been written
/// within the window.
#[must_use]
pub fn room(settings: &PoisonSettings, recent: u32) -> usize {
    let left = match settings.on_poison {
        OnPoison::DeadLetter => settings.max_dead_letters.saturating_sub(recent),
        OnPoison::Halt => 0,
    };
    usize::try_from(left).unwrap_or(usize::MAX)
}

/// Takes out of a step what there is no room for, and says why the sink pauses, if it
/// does: the cursor then stays before the first dead letter that was not written. A
/// frozen range is not cut: it is settled as a whole while there is any room.
pub fn limit(
    settings: &PoisonSettings,
    frozen: bool,
    step: &mut Step,
    room: usize,
) -> Option<Then> {
    let room = if frozen && room > 0 { usize::MAX } else { room };
    let first = step.dead_letters.get(room)?;
    let position = first.event.position();
    let is_open = |up_to: Position| up_to < position;
    let open_before = match step.up_to {
        Some(up_to) if !is_open(up_to) => "",
        _ => "; events before it are still to be delivered",
    };
    let what = format!(
        "event {} at {position} would be a dead letter ({}: {}){open_before}",
        first.event.id(),
        first.code,
        first.error
    );
    let reason = match settings.on_poison {
        OnPoison::Halt => format!("on_poison = \"halt\": {what}"),
        OnPoison::DeadLetter => format!(
            "the fuse has blown: more than {} dead letters within {}; {what}",
            settings.max_dead_letters,
            humantime::format_duration(settings.window)
        ),
    };
    let before = Position {
        seq: position.seq.saturating_sub(1),
        ..position
    };
    step.dead_letters.truncate(room);
    step.up_to = step
        .up_to
        .map(|up_to| up_to.min(before))
        .filter(|_| !frozen);
    Some(Then::Pause(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Next;
    use outbox::{DeadLetter, Event};

    fn step(dead: &[i64], up_to: i64) -> Step {
        let dead_letters = dead.iter().map(|seq| DeadLetter {
            event: Event::new(Position::new(1, *seq), "a.b", "{}"),
            code: "NO".to_owned(),
            error: "no".to_owned(),
            attempts: 1,
        });
        Step {
            delivered: None,
            up_to: Some(Position::new(1, up_to)),
            dead_letters: dead_letters.collect(),
            progress: true,
            next: Next::Go,
        }
    }

    #[test]
    fn a_fuse_lets_through_what_there_is_room_for_and_stops_the_cursor_there() {
        let settings = PoisonSettings::default();
        let mut cut = step(&[3, 5, 8], 9);
        let then = limit(&settings, false, &mut cut, room(&settings, 99));
        assert!(matches!(then, Some(Then::Pause(reason)) if reason.contains("the fuse")));
        assert_eq!(cut.dead_letters.len(), 1);
        assert_eq!(cut.up_to, Some(Position::new(1, 4)));
    }

    #[test]
    fn a_step_that_fits_is_left_alone() {
        let settings = PoisonSettings::default();
        let mut whole = step(&[3, 5], 9);
        assert_eq!(
            limit(&settings, false, &mut whole, room(&settings, 98)),
            None
        );
        assert_eq!(whole.up_to, Some(Position::new(1, 9)));
    }

    #[test]
    fn the_cursor_does_not_move_towards_a_dead_letter_behind_it() {
        let settings = PoisonSettings::default();
        let mut cut = step(&[8], 2);
        assert!(limit(&settings, false, &mut cut, 0).is_some());
        assert_eq!(cut.up_to, Some(Position::new(1, 2)));
    }

    #[test]
    fn a_frozen_range_is_not_cut() {
        let settings = PoisonSettings::default();
        let mut whole = step(&[3, 5], 9);
        assert_eq!(limit(&settings, true, &mut whole, 1), None);
        assert_eq!(whole.dead_letters.len(), 2);
        assert!(limit(&settings, true, &mut whole, 0).is_some());
        assert_eq!((whole.dead_letters.len(), whole.up_to), (0, None));
    }

    #[test]
    fn halting_writes_no_dead_letter_at_all() {
        let settings = PoisonSettings {
            on_poison: OnPoison::Halt,
            ..PoisonSettings::default()
        };
        assert_eq!(room(&settings, 0), 0);
        let mut cut = step(&[1], 1);
        let then = limit(&settings, false, &mut cut, 0);
        assert!(matches!(then, Some(Then::Pause(reason)) if reason.contains("halt")));
        assert!(cut.dead_letters.is_empty());
        assert_eq!(cut.up_to, Some(Position::new(1, 0)));
    }
}
