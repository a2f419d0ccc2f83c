//! Text that a column can hold: no NUL, which no Postgres text can hold, and of a
//! bounded length where the text is somebody else's.

use std::borrow::Cow;

/// The longest error text that is kept, in characters.
const MAX_ERROR_CHARS: usize = 2_000;
/// The longest code that is kept, in characters.
const MAX_CODE_CHARS: usize = 100;

/// An error's text as it is kept.
pub(super) fn error_text(text: &str) -> String {
    cut(text, MAX_ERROR_CHARS)
}

/// An error's code as it is kept.
pub(super) fn code_text(text: &str) -> String {
    cut(text, MAX_CODE_CHARS)
}

fn cut(text: &str, characters: usize) -> String {
    let kept = text.chars().filter(|character| *character != '\0');
    kept.take(characters).collect()
}

/// The whole text, with a replacement character for each NUL.
pub(super) fn whole_text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_text_is_cut_and_has_no_nul() {
        assert_eq!(error_text("a\0b"), "ab");
        assert_eq!(error_text(&"é".repeat(3_000)).chars().count(), 2_000);
        assert_eq!(code_text(&"é".repeat(3_000)).chars().count(), 100);
    }

    #[test]
    fn a_payload_is_copied_only_if_it_has_a_nul() {
        assert!(matches!(whole_text("{}"), Cow::Borrowed("{}")));
        assert_eq!(whole_text("a\0b"), "a\u{fffd}b");
    }
}
