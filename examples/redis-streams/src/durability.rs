//! Whether the server keeps what it acknowledges.
//!
//! Redis answers from memory. With `appendonly yes` and `appendfsync always` it writes a transaction to
//! its log and syncs that to disk before it sends the answer
//! (<https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/>), unless
//! `no-appendfsync-on-rewrite` suspends that while the log is rewritten. And a server that evicts keys
//! when its memory is full may drop a whole stream. All of this is looked at when a connection is made;
//! what an administrator changes while it lasts is seen by the next one. What is not looked at is
//! replication: a replica that takes over may lack what its primary had acknowledged. Nor is it seen that
//! a log was switched on a moment ago, which counts from the end of its first rewrite.

use std::collections::HashMap;

use outbox_sinks::schemars::{self, JsonSchema};
use serde::Deserialize;

use crate::classify::{Failure, Loss, Trouble};

/// What the server must promise about entries it has acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// They survive a crash of its machine.
    #[default]
    Always,
    /// They survive a crash of its machine, except those of the last second or two.
    EverySec,
    /// Nothing: the server is not asked.
    None,
}

/// What the server says of itself, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    info: HashMap<String, String>,
    config: HashMap<String, String>,
}

impl Facts {
    /// From the answer to `INFO`, and those to `CONFIG GET`.
    pub(crate) fn new(info: &str, config: HashMap<String, String>) -> Self {
        let pair = |line: &str| {
            let (key, value) = line.split_once(':')?;
            Some((key.to_owned(), value.trim_end().to_owned()))
        };
        Self {
            info: info.lines().filter_map(pair).collect(),
            config,
        }
    }

    /// The settings that must be asked for, since `INFO` does not have them.
    pub(crate) const SETTINGS: [&str; 2] = ["appendfsync", "no-appendfsync-on-rewrite"];

    fn info(&self, key: &str) -> &str {
        self.info.get(key).map_or("", String::as_str)
    }

    fn config(&self, key: &str) -> &str {
        self.config.get(key).map_or("", String::as_str)
    }

    /// Whether writes are refused because this server copies another one.
    pub(crate) fn is_replica(&self) -> bool {
        self.info("role") == "slave"
    }

    /// What stands between the server and what is wanted of it.
    pub(crate) fn shortfall(&self, wanted: Durability) -> Option<Trouble> {
        if wanted == Durability::None {
            return None;
        }
        let fsync = self.config("appendfsync");
        let policy = self.info("maxmemory_policy");
        if self.info("aof_enabled") != "1" {
            short(Loss::NoLog, "a crash of the server would lose everything")
        } else if self.info("maxmemory") != "0" && policy.starts_with("allkeys-") {
            short(Loss::Evicts, "a full memory would drop streams")
        } else if fsync.is_empty() {
            short(Loss::Untold, "the server keeps appendfsync to itself")
        } else if fsync == "no" {
            short(Loss::SyncsLate, "appendfsync is no")
        } else if wanted == Durability::Always && fsync != "always" {
            short(Loss::SyncsLate, "appendfsync is not always")
        } else if self.config("no-appendfsync-on-rewrite") == "yes" {
            short(
                Loss::SyncsNotDuringRewrites,
                "no-appendfsync-on-rewrite is yes",
            )
        } else {
            None
        }
    }
}

fn short(loss: Loss, told: &str) -> Option<Trouble> {
    let (failure, told) = (Failure::Loses(loss), Some(told.to_owned()));
    Some(Trouble { failure, told })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAFE: &str = "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n# Persistence\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\n";

    fn shortfall(
        wanted: Durability,
        info: &str,
        fsync: &str,
        during_rewrites: &str,
    ) -> Option<Failure> {
        let values = [fsync, during_rewrites].map(str::to_owned);
        let config = Facts::SETTINGS.map(str::to_owned).into_iter().zip(values);
        let found = Facts::new(info, config.collect()).shortfall(wanted);
        found.map(|trouble| trouble.failure)
    }

    #[test]
    fn a_server_that_would_lose_acknowledged_entries_falls_short() {
        use Durability::{Always, EverySec, None as Nothing};
        let no_log = SAFE.replace("aof_enabled:1", "aof_enabled:0");
        let evicting = SAFE
            .replace("maxmemory:0", "maxmemory:1000")
            .replace("noeviction", "allkeys-lru");
        for (wanted, info, fsync, during_rewrites, expected) in [
            (Always, SAFE, "always", "no", None),
            (
                Always,
                SAFE,
                "always",
                "yes",
                Some(Loss::SyncsNotDuringRewrites),
            ),
            (Always, SAFE, "everysec", "no", Some(Loss::SyncsLate)),
            (Always, SAFE, "no", "no", Some(Loss::SyncsLate)),
            (Always, SAFE, "", "", Some(Loss::Untold)),
            (Always, &no_log, "always", "no", Some(Loss::NoLog)),
            (Always, &evicting, "always", "no", Some(Loss::Evicts)),
            (Always, "", "always", "no", Some(Loss::NoLog)),
            (EverySec, SAFE, "everysec", "no", None),
            (EverySec, SAFE, "always", "no", None),
            (EverySec, SAFE, "no", "no", Some(Loss::SyncsLate)),
            (EverySec, &no_log, "everysec", "no", Some(Loss::NoLog)),
            (Nothing, &no_log, "", "", None),
        ] {
            let found = shortfall(wanted, info, fsync, during_rewrites);
            assert_eq!(
                found,
                expected.map(Failure::Loses),
                "{wanted:?} {fsync} {during_rewrites} {info}"
            );
        }
    }

    #[test]
    fn a_limit_without_eviction_is_no_shortfall() {
        let limited = SAFE.replace("maxmemory:0", "maxmemory:1000");
        assert_eq!(
            shortfall(Durability::Always, &limited, "always", "no"),
            None
        );
    }
}
