//! The schema that everything lives in, and its name inside SQL texts.
//!
//! Statements are written beside the functions that run them, with `{schema}`
//! where the quoted name goes. A name can't break out of its quotes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// A schema of the database, `public` by default. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    name: Arc<str>,
    quoted: Arc<str>,
}

impl Schema {
    /// Takes a name as it is in `pg_namespace`: unquoted, and case matters.
    ///
    /// # Errors
    /// [`InvalidSchema`] if Postgres has no such name: empty, longer than 63
    /// bytes, with a NUL, or reserved.
    pub fn new(name: &str) -> Result<Self, InvalidSchema> {
        let reserved = name.starts_with("pg_") || name == "information_schema";
        if name.is_empty() || name.len() > 63 || name.contains('\0') || reserved {
            return Err(InvalidSchema(name.to_owned()));
        }
        Ok(Self {
            name: name.into(),
            quoted: quote(name).into(),
        })
    }

    /// The name, unquoted.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name in double quotes, to be put into SQL.
    #[must_use]
    pub fn quoted(&self) -> &str {
        &self.quoted
    }

    /// A statement with the quoted name in each place of `{schema}`.
    pub(crate) fn sql(&self, text: &'static str) -> SqlStr {
        AssertSqlSafe(text.replace("{schema}", &self.quoted)).into_sql_str()
    }
}

/// An identifier in double quotes.
pub(crate) fn quote(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

impl Default for Schema {
    fn default() -> Self {
        Self::new("public").expect("public is a valid schema name")
    }
}

impl FromStr for Schema {
    type Err = InvalidSchema;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

/// A text that can't name a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSchema(String);

impl fmt::Display for InvalidSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` can't name a schema: write 1 to 63 bytes that don't begin with pg_",
            self.0.escape_debug()
        )
    }
}

impl std::error::Error for InvalidSchema {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_in_a_name_stays_inside_the_quotes() {
        let schema = Schema::new(r#"a"; drop table x; --"#).unwrap();
        assert_eq!(schema.quoted(), r#""a""; drop table x; --""#);
    }

    #[test]
    fn names_that_postgres_would_cut_or_refuse_are_refused() {
        for name in ["", "pg_temp", "information_schema", "a\0b", &"x".repeat(64)] {
            assert!(Schema::new(name).is_err(), "{name:?}");
        }
    }
}
