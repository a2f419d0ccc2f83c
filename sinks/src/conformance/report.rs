//! What the checks came to, for people and for programs.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use super::Rule;

/// What all checks of one destination came to. Printed, it is a table.
///
/// ```
/// # use outbox_sinks::conformance::Report;
/// fn look(report: &Report) {
///     for check in report.failures() {
///         eprintln!("{}: {}", check.rule(), check.name());
///     }
///     report.assert();
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a report says nothing until it is asserted or printed"]
pub struct Report {
    destination: String,
    checks: Vec<Check>,
}

/// One check and its outcome.
#[derive(Clone, Debug)]
pub struct Check {
    pub(super) rule: Rule,
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
}

/// What became of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The rule was kept.
    Passed,
    /// A rule was broken.
    Failed {
        /// Which one: the check's own, or a more basic one that the check stumbled over.
        rule: Rule,
        /// What was seen, without payloads and secrets.
        seen: String,
    },
    /// It can't be checked here, for this reason.
    NotApplicable(String),
}

impl Check {
    /// The rule it is about.
    #[must_use]
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// What it checks.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What became of it.
    #[must_use]
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// How long it took.
    #[must_use]
    pub const fn took(&self) -> Duration {
        self.took
    }

    /// The rule that was found broken, if one was.
    #[must_use]
    pub const fn broken(&self) -> Option<Rule> {
        match self.outcome {
            Outcome::Failed { rule, .. } => Some(rule),
            Outcome::Passed | Outcome::NotApplicable(_) => None,
        }
    }
}

impl Report {
    pub(super) const fn new(destination: String, checks: Vec<Check>) -> Self {
        Self {
            destination,
            checks,
        }
    }

    /// The destination's name.
    #[must_use]
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// All checks, in the order in which they ran.
    #[must_use]
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The checks that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.broken().is_some())
    }

    /// The rules that were found broken.
    #[must_use]
    pub fn broken_rules(&self) -> BTreeSet<Rule> {
        self.checks.iter().filter_map(Check::broken).collect()
    }

    /// How many checks were run: those that are not applicable are not counted.
    #[must_use]
    pub fn ran(&self) -> usize {
        let ran = |check: &&Check| !matches!(check.outcome, Outcome::NotApplicable(_));
        self.checks.iter().filter(ran).count()
    }

    /// How many checks failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.failures().count()
    }

    /// Makes a test of it.
    ///
    /// # Panics
    /// With the whole table, if a check failed.
    pub fn assert(&self) {
        assert!(self.failed() == 0, "\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.checks.iter().map(|check| check.rule.name().len());
        let width = widths.max().unwrap_or(0);
        writeln!(f, "{}", self.destination)?;
        for check in &self.checks {
            let (rule, name, took) = (check.rule, check.name, check.took.as_secs_f64());
            let row = |word| format!("  {rule:width$}  {word:6}  {took:5.2} s  {name}");
            match &check.outcome {
                Outcome::Passed => writeln!(f, "{}", row("ok"))?,
                Outcome::NotApplicable(why) => writeln!(f, "{}: {why}", row("n/a"))?,
                Outcome::Failed { rule, seen } => {
                    writeln!(f, "{}", row("FAILED"))?;
                    writeln!(f, "      broken: {rule}: {}", rule.sentence())?;
                    writeln!(f, "      seen:   {seen}")?;
                }
            }
        }
        let (ran, failed) = (self.ran(), self.failed());
        let other = self.checks.len() - ran;
        write!(f, "  {ran} checks, {failed} failed, {other} not applicable")
    }
}

/// Several reports in one line: `conformance: 3 sinks, 126 checks, 0 failed`.
///
/// ```
/// use outbox_sinks::conformance::Summary;
/// let reports = [];
/// assert_eq!(Summary::of(&reports).to_string(), "conformance: 0 sinks, 0 checks, 0 failed");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// How many destinations were checked.
    pub sinks: usize,
    /// How many checks were run on all of them.
    pub checks: usize,
    /// How many of those failed.
    pub failed: usize,
}

impl Summary {
    /// Adds reports up.
    pub fn of<'r>(reports: impl IntoIterator<Item = &'r Report>) -> Self {
        let add = |sum: Self, report: &Report| Self {
            sinks: sum.sinks + 1,
            checks: sum.checks + report.ran(),
            failed: sum.failed + report.failed(),
        };
        reports.into_iter().fold(Self::default(), add)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sinks,
            checks,
            failed,
        } = self;
        write!(
            f,
            "conformance: {sinks} sinks, {checks} checks, {failed} failed"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let check = |rule, name, outcome| Check {
            rule,
            name,
            outcome,
            took: Duration::from_millis(1_250),
        };
        let failed = Outcome::Failed {
            rule: Rule::Durability,
            seen: "evt_3 is missing".to_owned(),
        };
        let lacking = Outcome::NotApplicable("no network".to_owned());
        let checks = vec![
            check(Rule::Probe, "changes nothing", Outcome::Passed),
            check(Rule::Outage, "cut", failed),
            check(Rule::Deadline, "hang", lacking),
        ];
        Report::new("ledger".to_owned(), checks)
    }

    #[test]
    fn a_report_is_a_table_that_names_the_broken_rule() {
        let expected = "\
ledger
  probe     ok       1.25 s  changes nothing
  outage    FAILED   1.25 s  cut
      broken: durability: What is reported as delivered is at the destination and survives a crash there.
      seen:   evt_3 is missing
  deadline  n/a      1.25 s  hang: no network
  2 checks, 1 failed, 1 not applicable";
        assert_eq!(report().to_string(), expected);
        assert_eq!(report().broken_rules(), [Rule::Durability].into());
    }

    #[test]
    #[should_panic(expected = "evt_3 is missing")]
    fn asserting_a_failed_report_shows_what_was_seen() {
        report().assert();
    }

    #[test]
    fn reports_add_up_to_one_line() {
        let sum = Summary::of(&[report(), report()]);
        assert_eq!(sum.to_string(), "conformance: 2 sinks, 4 checks, 2 failed");
    }
}
