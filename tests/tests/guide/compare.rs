//! Whether a command printed what the page shows. `…` on the page stands for anything within a
//! line, and a line that is nothing else for any number of lines. How much space there is
//! between words does not count: the width of a table's columns depends on what is in it.

/// Whether these lines are as the page shows them.
pub(crate) fn fits(shown: &[String], printed: &[String]) -> bool {
    let Some((first, rest)) = shown.split_first() else {
        return printed.is_empty();
    };
    if first.trim() == "…" {
        return (0..=printed.len()).any(|skipped| fits(rest, &printed[skipped..]));
    }
    match printed.split_first() {
        Some((line, others)) => line_fits(&plain(first), &plain(line)) && fits(rest, others),
        None => false,
    }
}

fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let Some((start, rest)) = shown.split_once('…') else {
        return shown == printed;
    };
    let Some(mut left) = printed.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<_> = rest.split('…').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, behind)) = left.split_once(part) else {
            return false;
        };
        left = behind;
    }
    left.ends_with(end)
}

#[test]
fn an_ellipsis_stands_for_what_varies_and_for_nothing_else() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let fit = |shown: &str, printed: &str| fits(&lines(shown), &lines(printed));
    assert!(fit("a … c", "a  b   c") && fit("a…\n…\nz", "ab\n1\n2\nz") && fit("…", ""));
    assert!(fit("x … y … z", "x 1 y 2 z") && fit("", ""));
    assert!(!fit("a", "a\nb") && !fit("a\nb", "a") && !fit("", "warning"));
    assert!(!fit("a … c", "a b d") && !fit("…\nz", "z\ny") && !fit("ab…bc", "abc"));
}
