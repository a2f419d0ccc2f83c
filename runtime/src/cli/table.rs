//! Results: a table for people, with columns as wide as their widest cell and two spaces
//! apart, or JSON for programs.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::exit::Failure;

/// Writes a head line and rows; the last column may be as long as it likes.
pub(super) fn write<const N: usize>(
    out: &mut impl Write,
    head: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let mut widths = head.map(width);
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    line(out, &widths, head.iter().copied())?;
    for row in rows {
        line(out, &widths, row.iter().map(String::as_str))?;
    }
    Ok(())
}

fn line<'a>(
    out: &mut impl Write,
    widths: &[usize],
    cells: impl Iterator<Item = &'a str>,
) -> io::Result<()> {
    let mut text = String::new();
    for (cell, column) in cells.zip(widths) {
        text.push_str(cell);
        let padding = column.saturating_sub(width(cell)) + 2;
        text.extend(std::iter::repeat_n(' ', padding));
    }
    writeln!(out, "{}", text.trim_end())
}

/// Writes one JSON object.
pub(super) fn json(out: &mut impl Write, report: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(report).map_err(anyhow::Error::new)?;
    Ok(writeln!(out, "{text}")?)
}

/// Somebody else's text may come with line ends or worse: a line of ours has neither.
pub(super) fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

/// A length of time in whole seconds, for people.
pub(super) fn span(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up_and_lines_end_with_their_text() {
        let mut out = Vec::new();
        let row = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let rows = [row("événements", "ok"), row("b", "")];
        super::write(&mut out, ["SINK", "STATE"], &rows).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(shown, "SINK        STATE\névénements  ok\nb\n");
    }
}
