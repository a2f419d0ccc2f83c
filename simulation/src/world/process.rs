//! What the world knows of a process: whether it lives, what it was told, and how its
//! connections fare.

use std::collections::BTreeMap;

use fastrand::Rng;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{World, millis};

/// How long after a jump of its clock a process may not have noticed yet.
const JUMP_GRACE: u64 = 30;

/// A worker's process, from its start to its end.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its name in the leases.
    pub(crate) name: String,
    /// When it was started, by its own clock.
    born: Instant,
    pub(crate) dead: bool,
    /// Cancelled when it dies: nothing of it runs any more.
    pub(crate) killed: CancellationToken,
    /// After how many more calls it dies.
    pub(crate) crash_in: Option<u64>,
    /// Until when it can't reach the database.
    pub(crate) cut_off_until: u64,
    /// How often its connections were cut, and how often it has noticed.
    pub(crate) cuts: u64,
    noticed: u64,
    pub(crate) history: u64,
    /// What its calls draw their fortune from.
    pub(crate) chance: Rng,
    /// Calls in the present slice.
    pub(crate) calls: u64,
    /// When its clock jumped the last time, by its own clock.
    jumped_at: u64,
    /// What it knows of its leases, by name and token.
    leases: BTreeMap<(String, i64), Known>,
}

/// What a process knows of a lease of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// When it asked for what was granted the last time.
    pub(crate) asked_at: u64,
    /// When it was told that the lease is lost, or let it go.
    lost_at: Option<u64>,
    /// Whether it was told that the sink is paused.
    pub(crate) paused: bool,
}

impl Process {
    pub(crate) fn new(name: String, born: Instant, chance: Rng) -> Self {
        Self {
            name,
            born,
            dead: false,
            killed: CancellationToken::new(),
            crash_in: None,
            cut_off_until: 0,
            cuts: 0,
            noticed: 0,
            history: 0,
            chance,
            calls: 0,
            jumped_at: 0,
            leases: BTreeMap::new(),
        }
    }

    /// Its own clock, in milliseconds since its start.
    pub(crate) fn clock(&self) -> u64 {
        millis(self.born.elapsed())
    }

    /// Its clock is about to jump.
    pub(crate) fn clock_jumps(&mut self, by: u64) {
        self.jumped_at = self.clock() + by;
    }

    /// Takes note that its connections were cut, if they were.
    pub(crate) const fn notices_cut(&mut self) -> bool {
        let news = self.cuts != self.noticed;
        if news {
            self.noticed = self.cuts;
            self.history += 1;
        }
        news
    }

    pub(crate) fn knows(&mut self, lease: &outbox::Lease) -> &mut Known {
        self.known(&lease.name, lease.token)
    }

    pub(crate) fn known(&mut self, lease: &str, token: i64) -> &mut Known {
        self.leases.entry((lease.to_owned(), token)).or_default()
    }

    /// Takes note that a lease is gone, and that it knows.
    pub(crate) fn lost(&mut self, lease: &outbox::Lease) {
        let now = self.clock();
        self.knows(lease).lost_at.get_or_insert(now);
    }

    /// Why it must not deliver any more under a lease, if it must not (OB-3): it was told
    /// so, or it can tell by its own clock. It has a moment to react.
    pub(crate) fn must_not_deliver(&mut self, lease: &str, token: i64, ttl: u64) -> Option<String> {
        let now = self.clock();
        if now < self.jumped_at + JUMP_GRACE {
            return None;
        }
        let known = *self.known(lease, token);
        if let Some(lost_at) = known.lost_at.filter(|lost_at| now > lost_at + JUMP_GRACE) {
            let ago = now - lost_at;
            return Some(format!("it knew for {ago} ms that the lease is lost"));
        }
        let held_for = now.saturating_sub(known.asked_at);
        (held_for > ttl).then(|| format!("by its clock the lease ran out: {held_for} of {ttl} ms"))
    }
}

impl World {
    /// A process dies at once: nothing that it does from here on happens.
    pub(crate) fn kill(&mut self, process: usize) {
        if let Some(process) = self.processes.get_mut(process) {
            process.dead = true;
            process.killed.cancel();
        }
        self.log(|| "the process dies".to_owned());
        self.count("deaths");
    }

    /// A place at which a process may die. Whether it is still alive after it.
    pub(crate) fn survives(&mut self, id: usize) -> bool {
        let Some(process) = self.processes.get_mut(id) else {
            return false;
        };
        if process.dead {
            return false;
        }
        let Some(left) = process.crash_in else {
            return true;
        };
        process.crash_in = left.checked_sub(1);
        if left == 0 {
            self.kill(id);
        }
        left > 0
    }

    /// Whether a process can reach the database now.
    pub(crate) fn reaches_database(&self, id: usize) -> bool {
        let now = self.now();
        let cut_off_until = self.processes.get(id).map_or(0, |it| it.cut_off_until);
        now >= self.down_until && now >= cut_off_until
    }

    /// Cuts all connections of a process to the database, for a while.
    pub(crate) fn cut_off(&mut self, id: usize, until: u64) {
        if let Some(process) = self.processes.get_mut(id) {
            process.cuts += 1;
            process.cut_off_until = process.cut_off_until.max(until);
        }
    }
}
