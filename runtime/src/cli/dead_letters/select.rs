//! Which dead letters a command is about.

use clap::Args;
use outbox::{DeadLetterFilter, Moment, TypePattern};

use crate::cli::exit::{Failure, Status};
use crate::cli::moment::moment;

/// Options that narrow it down; those of one kind widen each other.
#[derive(Args, Debug)]
pub(super) struct Select {
    /// Of this sink; may be repeated
    #[arg(long = "sink", value_name = "NAME")]
    sinks: Vec<String>,
    /// Refused with this code; may be repeated
    #[arg(long = "code", value_name = "CODE")]
    codes: Vec<String>,
    /// Of this type of event, such as order.paid or 'order.*'; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<TypePattern>,
    /// Set aside before this time, or longer ago than this
    #[arg(long, value_name = "TIME|AGE", value_parser = moment)]
    before: Option<Moment>,
    /// With this id; may be repeated
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<i64>,
}

impl Select {
    pub(super) fn filter(&self) -> DeadLetterFilter {
        DeadLetterFilter {
            sinks: self.sinks.clone(),
            codes: self.codes.clone(),
            types: self.types.clone(),
            before: self.before,
            ids: self.ids.clone(),
        }
    }

    /// The filter of a command that changes something: it must be said what, even if it
    /// is everything.
    pub(super) fn deliberate(&self, all: bool) -> Result<DeadLetterFilter, Failure> {
        let filter = self.filter();
        let message = match (filter.takes_all(), all) {
            (true, false) => {
                "which ones? name them by --sink, --code, --type, --before or --id, or say --all"
            }
            (false, true) => "--all and a narrower choice contradict each other: leave one out",
            (true, true) | (false, false) => return Ok(filter),
        };
        Err(Failure::new(Status::Configuration, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Parser, error::ErrorKind};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        select: Select,
        #[arg(long)]
        all: bool,
    }

    fn line(words: &[&str]) -> Line {
        Line::try_parse_from([&["line"], words].concat()).unwrap()
    }

    #[test]
    fn a_change_of_everything_must_be_meant() {
        let judged = |words: &[&str]| {
            let line = line(words);
            line.select.deliberate(line.all)
        };
        assert_eq!(judged(&[]).unwrap_err().status(), Status::Configuration);
        assert!(judged(&["--all"]).unwrap().takes_all());
        assert!(judged(&["--all", "--id", "5"]).is_err());
        for words in [
            ["--sink", "a"],
            ["--code", "X"],
            ["--type", "order.*"],
            ["--before", "2h"],
            ["--id", "5"],
        ] {
            assert!(!judged(&words).unwrap().takes_all(), "{words:?}");
        }
    }

    #[test]
    fn what_can_match_nothing_is_wrong_usage() {
        for words in [["--type", "order"], ["--before", "soon"], ["--id", "x"]] {
            let error = Line::try_parse_from([&["line"], words.as_slice()].concat()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ValueValidation, "{words:?}");
        }
    }
}
