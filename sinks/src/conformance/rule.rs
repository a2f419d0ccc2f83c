//! The rules: what a sink must keep, each with a short name that does not change.

use std::fmt;

/// A rule of the contract. Every check belongs to one, and every failure names the one
/// that was broken.
///
/// ```
/// use outbox_sinks::conformance::Rule;
/// assert_eq!(Rule::Order.to_string(), "order");
/// assert!(Rule::Order.sentence().starts_with("Within one key"));
/// assert_eq!(Rule::ALL.iter().filter(|rule| rule.name() == "outage").count(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// What a probe may do, and what it must notice.
    Probe,
    /// OB-4.
    Order,
    /// OB-9.
    Payload,
    /// OB-1, as far as a sink can keep it.
    Durability,
    /// What a repetition may do.
    Redelivery,
    /// The form of an answer.
    Verdicts,
    /// Who is to blame.
    Blame,
    /// Events that nobody expected.
    Input,
    /// OB-6.
    Outage,
    /// How long a call may take.
    Deadline,
    /// After a call has returned.
    Background,
    /// Whose work it is to try again.
    Retries,
    /// One sink after another.
    Takeover,
    /// The end of a sink.
    Close,
    /// What needs a person.
    Configuration,
    /// What no error may hold.
    Secrets,
    /// Dead letters that are sent again, and events ahead of their turn.
    Replays,
    /// The position that a destination stores with the data.
    Progress,
    /// How large a batch may be.
    Limits,
    /// Two sinks side by side.
    Isolation,
}

impl Rule {
    /// All rules, in the order in which they are checked.
    pub const ALL: &'static [Self] = &[
        Self::Limits,
        Self::Probe,
        Self::Order,
        Self::Payload,
        Self::Durability,
        Self::Redelivery,
        Self::Verdicts,
        Self::Blame,
        Self::Input,
        Self::Outage,
        Self::Deadline,
        Self::Background,
        Self::Retries,
        Self::Takeover,
        Self::Close,
        Self::Configuration,
        Self::Replays,
        Self::Progress,
        Self::Isolation,
        Self::Secrets,
    ];

    /// The short name, for tables and for those who grep.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Order => "order",
            Self::Payload => "payload",
            Self::Durability => "durability",
            Self::Redelivery => "redelivery",
            Self::Verdicts => "verdicts",
            Self::Blame => "blame",
            Self::Input => "input",
            Self::Outage => "outage",
            Self::Deadline => "deadline",
            Self::Background => "background",
            Self::Retries => "retries",
            Self::Takeover => "takeover",
            Self::Close => "close",
            Self::Configuration => "configuration",
            Self::Secrets => "secrets",
            Self::Replays => "replays",
            Self::Progress => "progress",
            Self::Limits => "limits",
            Self::Isolation => "isolation",
        }
    }

    /// The rule itself, as a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Probe => {
                "A probe succeeds where a delivery would, and changes nothing at the destination."
            }
            Self::Order => "Within one key, no event becomes durable before its predecessor.",
            Self::Payload => "The text of an event's data reaches the destination unchanged.",
            Self::Durability => {
                "What is reported as delivered is at the destination and survives a crash there."
            }
            Self::Redelivery => "An event may come twice: nothing is lost or doubled by it.",
            Self::Verdicts => {
                "There is one verdict for each event; what can never be sent is undeliverable."
            }
            Self::Blame => "No event is refused or undeliverable that the destination would take.",
            Self::Input => {
                "Whatever an event holds, it is neither an outage nor a wrong setting nor a panic."
            }
            Self::Outage => {
                "In an outage the delivery is unavailable or its events unconfirmed; afterwards it goes on."
            }
            Self::Deadline => {
                "Every call returns within its deadline, a delivery within the session's."
            }
            Self::Background => "Once a call has returned, nothing is sent behind its back.",
            Self::Retries => "The runtime retries: one call stores no event twice.",
            Self::Takeover => {
                "A sink may be dropped at any time; the next one goes on, even beside an older one."
            }
            Self::Close => "Closing ends soon, loses nothing and sends nothing.",
            Self::Configuration => "What needs a person is misconfigured, and says what to do.",
            Self::Secrets => "No error and no refusal holds a secret or a part of a payload.",
            Self::Replays => {
                "A batch apart from the flow arrives, and a replay even where repetitions are dropped."
            }
            Self::Progress => {
                "A destination that stores its position covers what is stored, and nothing else."
            }
            Self::Limits => {
                "A batch may hold something and does not wait for ever; it is frozen or covered, not both."
            }
            Self::Isolation => "Two sinks with places of their own do not disturb each other.",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_rule_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.name()).collect();
        let rules: BTreeSet<_> = Rule::ALL.iter().collect();
        assert_eq!((names.len(), rules.len()), (20, 20));
    }

    #[test]
    fn the_page_lists_every_rule_with_its_sentence() {
        let page = include_str!("mod.rs");
        for rule in Rule::ALL {
            let row = format!("//! | `{rule}` | {} |\n", rule.sentence());
            assert!(page.contains(&row), "missing: {row}");
        }
    }
}
