//! The kinds of fault, each of which can be switched off to shrink a failure.

use std::fmt;

/// Something that can go wrong, or that makes a run richer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Fault {
    /// More than one worker.
    Workers,
    /// More than one sink.
    Sinks,
    /// Sinks that take only some events.
    Filters,
    /// Sinks with frozen ranges.
    FrozenRanges,
    /// Destinations that keep out older owners by their token.
    Fencing,
    /// Transactions that roll back.
    Rollbacks,
    /// Transactions that stay open for long and hold the horizon.
    LongTransactions,
    /// Calls of the database that fail and have done nothing.
    DatabaseErrors,
    /// Calls of the database that do their work and whose answer is lost.
    LostAnswers,
    /// Calls of the database that take long.
    SlowDatabase,
    /// Statements that run after whoever sent them has given up.
    LateWrites,
    /// The database is down for a while.
    DatabaseOutages,
    /// The database crashes and loses asynchronous commits, whose ids come again.
    LostCommits,
    /// One process can't reach the database for a while.
    Partitions,
    /// The database's clock jumps.
    DatabaseClock,
    /// A process dies at any time.
    Crashes,
    /// A process dies between two awaits.
    CrashesInCalls,
    /// A process is told to stop, and another one starts.
    Stops,
    /// A process is stopped and goes on later: a zombie.
    Pauses,
    /// A process's clock jumps.
    ProcessClock,
    /// Leases are taken away by hand.
    StolenLeases,
    /// A destination is out for a while.
    Outages,
    /// A delivery fails now and then, for no reason of its own.
    Transients,
    /// A delivery does its work, and its answer is lost.
    LostDeliveries,
    /// A delivery gets only a part through.
    PartialDeliveries,
    /// A delivery takes longer than its deadline.
    SlowDeliveries,
    /// What a delivery sent arrives after the delivery was given up.
    LateDeliveries,
    /// A sink can't be opened now and then.
    OpenFailures,
    /// Events that a destination refuses.
    Poison,
    /// Poison that heals after a while.
    HealingPoison,
    /// Events on which a sink panics or hangs.
    PanicsAndHangs,
    /// Events on which the whole process dies.
    Killers,
    /// Events that can never be sent.
    Undeliverable,
    /// Operators pause and resume sinks.
    PauseCommands,
    /// Operators move cursors.
    SeekCommands,
    /// Operators replay and discard dead letters.
    ReplayCommands,
    /// Old rows are deleted.
    Retention,
    /// Destinations that store their position with the data.
    StoredPositions,
    /// Those are restored from an older state now and then.
    LostData,
}

impl Fault {
    /// All of them, in the order in which shrinking tries to do without.
    pub(crate) const ALL: [Self; 39] = [
        Self::Workers,
        Self::Sinks,
        Self::Filters,
        Self::FrozenRanges,
        Self::Fencing,
        Self::Rollbacks,
        Self::LongTransactions,
        Self::DatabaseErrors,
        Self::LostAnswers,
        Self::SlowDatabase,
        Self::LateWrites,
        Self::DatabaseOutages,
        Self::LostCommits,
        Self::Partitions,
        Self::DatabaseClock,
        Self::Crashes,
        Self::CrashesInCalls,
        Self::Stops,
        Self::Pauses,
        Self::ProcessClock,
        Self::StolenLeases,
        Self::Outages,
        Self::Transients,
        Self::LostDeliveries,
        Self::PartialDeliveries,
        Self::SlowDeliveries,
        Self::LateDeliveries,
        Self::OpenFailures,
        Self::Poison,
        Self::HealingPoison,
        Self::PanicsAndHangs,
        Self::Killers,
        Self::Undeliverable,
        Self::PauseCommands,
        Self::SeekCommands,
        Self::ReplayCommands,
        Self::Retention,
        Self::StoredPositions,
        Self::LostData,
    ];

    /// Whether it is drawn from a stream of its own: the others stay as they were drawn
    /// before it was there.
    pub(crate) const fn is_drawn_apart(self) -> bool {
        matches!(self, Self::StoredPositions | Self::LostData)
    }
}

/// A set of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Faults(u64);

impl Faults {
    /// Everything that can go wrong.
    pub(crate) const ALL: Self = Self(u64::MAX);

    pub(crate) const fn has(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u32) != 0
    }

    pub(crate) const fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u32))
    }

    fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |fault| self.has(*fault))
    }
}

impl FromIterator<Fault> for Faults {
    fn from_iter<I: IntoIterator<Item = Fault>>(faults: I) -> Self {
        let bits = faults
            .into_iter()
            .fold(0, |bits, fault| bits | (1 << fault as u32));
        Self(bits)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.iter().map(|fault| format!("{fault:?}")).collect();
        match names.is_empty() {
            true => f.write_str("none"),
            false => f.write_str(&names.join(", ")),
        }
    }
}
