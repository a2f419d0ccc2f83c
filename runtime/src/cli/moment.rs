//! Moments and places of the outbox, as they are written on the command line.

use jiff::Timestamp;
use outbox::{Moment, Position, SeekTarget};

/// A point in time or an age: `2026-09-24T10:15:02Z`, `2h`.
pub(super) fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(time) = text.parse::<Timestamp>().and_then(TryInto::try_into) {
        return Ok(Moment::At(time));
    }
    humantime::parse_duration(text)
        .map(Moment::Ago)
        .map_err(|_| {
            "write a time such as 2026-09-24T10:15:02Z, or an age such as 90s, 2h or 3days"
                .to_owned()
        })
}

/// Where a sink can be sent.
pub(super) fn target(text: &str) -> Result<SeekTarget, String> {
    match text {
        "beginning" => return Ok(SeekTarget::Beginning),
        "head" => return Ok(SeekTarget::Head),
        _ => {}
    }
    if let Ok(position) = text.parse::<Position>() {
        return Ok(SeekTarget::Position(position));
    }
    moment(text).map(SeekTarget::Time).map_err(|error| {
        format!("write beginning, head, or a position such as 88213.51120; otherwise {error}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_target_is_a_word_a_position_a_time_or_an_age() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_790_240_902_500);
        let at = SeekTarget::Time(Moment::At(time));
        for (text, expected) in [
            ("beginning", SeekTarget::Beginning),
            ("head", SeekTarget::Head),
            (
                "88213.51120",
                SeekTarget::Position(Position::new(88213, 51120)),
            ),
            (
                "88213:51120",
                SeekTarget::Position(Position::new(88213, 51120)),
            ),
            ("2026-09-24T09:08:22.5Z", at),
            ("2026-09-24T11:08:22.5+02:00", at),
            (
                "1h 30m",
                SeekTarget::Time(Moment::Ago(Duration::from_secs(5_400))),
            ),
        ] {
            assert_eq!(target(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_none_of_these_is_told_what_to_write() {
        for text in [
            "",
            "end",
            "5",
            "-3.1",
            "2026-09-24",
            "2026-09-24T09:08:22",
            "yesterday",
        ] {
            let error = target(text).unwrap_err();
            assert!(
                error.contains("beginning, head") && error.contains("2h"),
                "{text}: {error}"
            );
        }
    }
}
