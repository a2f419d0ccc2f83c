//! Shows how a run is going, on standard error: one line that is drawn again and again
//! on a terminal, a line every few seconds elsewhere.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use tokio::time::Instant;

/// How often the line is drawn on a terminal, and written elsewhere.
const REDRAW: Duration = Duration::from_millis(200);
const PLAIN: Duration = Duration::from_secs(2);

/// The figures at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) published: u64,
    pub(super) delivered: u64,
}

/// The progress line.
#[derive(Debug)]
pub(super) struct Progress {
    terminal: bool,
    drawn: bool,
    started: Instant,
    /// The figures about a second ago, for the rate.
    reference: (Instant, Figures),
    rate: u64,
}

impl Progress {
    pub(super) fn start() -> Self {
        let now = Instant::now();
        Self {
            terminal: stderr().is_terminal(),
            drawn: false,
            started: now,
            reference: (now, Figures::default()),
            rate: 0,
        }
    }

    /// Sets the clock back to zero.
    pub(super) fn restart(&mut self) {
        self.started = Instant::now();
        self.reference = (self.started, Figures::default());
    }

    /// How often [`Progress::show`] should be called.
    pub(super) const fn interval(&self) -> Duration {
        if self.terminal { REDRAW } else { PLAIN }
    }

    /// Shows the figures.
    pub(super) fn show(&mut self, figures: Figures) {
        let now = Instant::now();
        let (then, before) = self.reference;
        let age = now.duration_since(then);
        if age >= Duration::from_secs(1) {
            self.rate = rate(figures.delivered.saturating_sub(before.delivered), age);
            self.reference = (now, figures);
        }
        let line = line(now.duration_since(self.started), figures, self.rate);
        if self.terminal {
            // Back to the line's start, and clear it.
            write_error(&format!("\r\x1b[2K{line}"));
            self.drawn = true;
        } else {
            write_error(&format!("{line}\n"));
        }
    }

    /// Writes a sentence, on a line of its own.
    pub(super) fn say(&mut self, sentence: &str) {
        let clear = if self.drawn { "\r\x1b[2K" } else { "" };
        self.drawn = false;
        write_error(&format!("{clear}{sentence}\n"));
    }

    /// Leaves the line as it is: what follows begins on a new one.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.drawn) {
            write_error("\n");
        }
    }
}

/// Nobody may be listening (a closed pipe): the run goes on without its story.
fn write_error(text: &str) {
    let mut out = stderr().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .ok();
}

fn rate(events: u64, time: Duration) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    events.saturating_mul(1000) / millis
}

fn line(elapsed: Duration, figures: Figures, rate: u64) -> String {
    let Figures {
        published,
        delivered,
    } = figures;
    format!(
        "{:>4} s   published {published}   delivered {delivered}   behind {}   {rate} events/s",
        elapsed.as_secs(),
        published.saturating_sub(delivered),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_published_delivered_and_the_difference() {
        let figures = Figures {
            published: 1500,
            delivered: 1400,
        };
        let line = line(Duration::from_millis(3999), figures, 480);
        assert_eq!(
            line,
            "   3 s   published 1500   delivered 1400   behind 100   480 events/s"
        );
    }

    #[test]
    fn the_rate_is_per_second_and_survives_no_time_at_all() {
        assert_eq!(rate(750, Duration::from_millis(1500)), 500);
        assert_eq!(rate(5, Duration::ZERO), 5000);
    }
}
