//! `${NAME}` and `${NAME:-default}` within one value.
//!
//! Only these two forms mean something. A lone `$`, `$1`, `$NAME` and `$$` stay as
//! they are, for passwords and regular expressions are full of them; a literal
//! `${` is written `$${`. What is put in is never looked at again. The crates that
//! do this also expand `$NAME` or know escapes of their own, hence these few lines.

use std::borrow::Cow;

use super::environment::{Absent, Environment};

/// The value with its variables filled in, or why that can't be done.
///
/// # Errors
/// A sentence that names the variable, never its value.
pub(super) fn interpolate<'a>(
    value: &'a str,
    environment: &Environment,
) -> Result<Cow<'a, str>, String> {
    let Some(at) = value.find("${") else {
        return Ok(Cow::Borrowed(value));
    };
    let (before, mut rest) = value.split_at(at);
    let mut out = before.to_owned();
    while let Some(inner) = rest.strip_prefix("${") {
        if out.ends_with('$') {
            out.push('{');
            rest = inner;
        } else {
            let (reference, after) = inner
                .split_once('}')
                .ok_or("`${` has no closing brace; write `$${` for the characters themselves")?;
            out.push_str(&variable(reference, environment)?);
            rest = after;
        }
        let (text, next) = rest.split_at(rest.find("${").unwrap_or(rest.len()));
        out.push_str(text);
        rest = next;
    }
    Ok(Cow::Owned(out))
}

fn variable(reference: &str, environment: &Environment) -> Result<String, String> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let mut characters = name.chars();
    let starts = characters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !starts || !characters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(
            "`${…}` holds no variable's name; write `$${` for the characters themselves".to_owned(),
        );
    }
    match (environment.get(name), default) {
        (Ok(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Ok(value), _) => Ok(value),
        (Err(Absent::NotSet), Some(default)) => Ok(default.to_owned()),
        (Err(Absent::NotSet), None) => Err(format!(
            "the environment variable {name} is not set; set it, or write ${{{name}:-default}}"
        )),
        (Err(Absent::NotText), _) => {
            Err(format!("the environment variable {name} is not UTF-8 text"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(value: &str) -> Result<String, String> {
        let environment =
            Environment::fixed([("NAME", "x"), ("EMPTY", ""), ("TRICKY", "${NAME}$1")]);
        interpolate(value, &environment).map(Cow::into_owned)
    }

    #[test]
    fn only_a_name_in_braces_is_filled_in() {
        for (value, expected) in [
            ("a${NAME}b${NAME}", "axbx"),
            ("${MISSING:-d-e:f}", "d-e:f"),
            ("${MISSING:-}", ""),
            ("${EMPTY:-d}", "d"),
            ("${EMPTY}", ""),
            // H29
            ("pa$$w0rd$", "pa$$w0rd$"),
            ("^(.*)$1 $NAME {NAME} é", "^(.*)$1 $NAME {NAME} é"),
            ("$${NAME} $$${", "${NAME} $${"),
            ("{tenantId:-shared}", "{tenantId:-shared}"),
        ] {
            assert_eq!(filled(value).as_deref(), Ok(expected), "{value}");
        }
    }

    #[test]
    fn what_is_put_in_is_not_looked_at_again() {
        assert_eq!(filled("${TRICKY}").as_deref(), Ok("${NAME}$1"));
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = filled("postgres://${DB_USER}@h/").unwrap_err();
        assert!(error.contains("DB_USER is not set"), "{error}");
        for bad in ["${", "${}", "${A B}", "${1}", "${NAME"] {
            assert!(filled(bad).is_err(), "{bad}");
        }
    }
}
