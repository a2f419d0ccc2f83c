//! The tables `leases` and `outbox_workers`. Only the database's clock counts.

use std::collections::BTreeMap;
use std::time::Duration;

use outbox::{Lease, Member, Owned, sink_lease};

use super::World;

/// A row of `leases`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseRow {
    pub(crate) holder: Option<String>,
    pub(crate) token: i64,
    pub(crate) expires_at: u64,
}

/// A row of `outbox_workers`.
#[derive(Clone, Debug)]
pub(crate) struct WorkerRow {
    sinks: Vec<String>,
    expires_at: u64,
}

/// Both tables.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    pub(crate) rows: BTreeMap<String, LeaseRow>,
    workers: BTreeMap<String, WorkerRow>,
}

impl Leases {
    /// Who holds a lease now.
    pub(crate) fn holder(&self, name: &str, now: u64) -> Option<&str> {
        let row = self.rows.get(name).filter(|row| row.expires_at > now)?;
        row.holder.as_deref()
    }
}

impl World {
    pub(crate) fn acquire(&mut self, name: &str, holder: &str, ttl: Duration) -> Option<Lease> {
        let now = self.database_now();
        let kept = self.leases.rows.get(name).cloned();
        let kept = kept.unwrap_or_default();
        let other = kept.holder.as_deref().filter(|kept| *kept != holder);
        if other.is_some() && kept.expires_at > now {
            return None;
        }
        self.outbox.flush_with_write();
        // A lease row that was lost begins above the cursor's token.
        let cursor = self.sink_of_lease(name).and_then(|sink| self.cursor(sink));
        let known = cursor.map_or(0, |cursor| cursor.token);
        let lease = Lease {
            name: name.to_owned(),
            holder: holder.to_owned(),
            token: kept.token.max(known) + 1,
            abandoned: other.is_some(),
        };
        self.leases.rows.insert(
            name.to_owned(),
            LeaseRow {
                holder: Some(holder.to_owned()),
                token: lease.token,
                expires_at: now + millis(ttl),
            },
        );
        if let Some(sink) = self.sink_of_lease(name) {
            self.taken(sink, &lease);
        }
        Some(lease)
    }

    pub(crate) fn renew(&mut self, lease: &Lease, ttl: Duration) -> Owned {
        let expires_at = self.database_now() + millis(ttl);
        self.outbox.flush_with_write();
        match self.held(lease) {
            Some(row) => {
                row.expires_at = expires_at;
                Owned::Yes
            }
            None => Owned::No,
        }
    }

    pub(crate) fn release(&mut self, lease: &Lease) {
        let now = self.database_now();
        self.outbox.flush_with_write();
        if let Some(row) = self.held(lease) {
            (row.holder, row.expires_at) = (None, now);
        }
    }

    fn held(&mut self, lease: &Lease) -> Option<&mut LeaseRow> {
        let row = self.leases.rows.get_mut(&lease.name)?;
        let ours = row.token == lease.token && row.holder.as_ref() == Some(&lease.holder);
        ours.then_some(row)
    }

    pub(crate) fn census(&mut self, holder: &str, sinks: &[String], ttl: Duration) -> Vec<Member> {
        let now = self.database_now();
        self.outbox.flush_with_write();
        let row = WorkerRow {
            sinks: sinks.to_vec(),
            expires_at: now + millis(ttl),
        };
        self.leases.workers.insert(holder.to_owned(), row);
        let alive = |(_, row): &(&String, &WorkerRow)| row.expires_at > now;
        let members = self.leases.workers.iter().filter(alive);
        members
            .map(|(holder, row)| {
                let mut held: Vec<String> = row.sinks.clone();
                held.retain(|sink| self.leases.holder(&sink_lease(sink), now) == Some(holder));
                Member {
                    holder: holder.clone(),
                    sinks: row.sinks.clone(),
                    held,
                }
            })
            .collect()
    }

    pub(crate) fn leave(&mut self, holder: &str) {
        self.outbox.flush_with_write();
        self.leases.workers.remove(holder);
    }

    /// The number of the sink whose lease has this name.
    fn sink_of_lease(&self, name: &str) -> Option<usize> {
        let sinks = &self.plan.sinks;
        let named = |plan: &crate::plan::SinkPlan| sink_lease(&plan.settings.name) == name;
        sinks.iter().position(named)
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 4)
}
