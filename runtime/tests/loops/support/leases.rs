//! The leases of a test's store.

use std::time::Duration;

use outbox::{Lease, Owned};
use tokio::time::Instant;

use super::State;

impl State {
    pub(super) fn acquire(&mut self, name: &str, holder: &str, ttl: Duration) -> Option<Lease> {
        let until = Instant::now() + ttl;
        let (token, abandoned) = match self.leases.get(name) {
            Some((held, Some(_))) if held.holder == holder => (held.token + 1, false),
            Some((_, Some(expires))) if *expires > Instant::now() => return None,
            Some((held, expires)) => (held.token + 1, expires.is_some()),
            None => (1, false),
        };
        let lease = Lease {
            name: name.to_owned(),
            holder: holder.to_owned(),
            token,
            abandoned,
        };
        let row = (lease.clone(), Some(until));
        self.leases.insert(name.to_owned(), row);
        Some(lease)
    }

    pub(super) fn renew(&mut self, lease: &Lease, ttl: Duration) -> Owned {
        match self.leases.get_mut(&lease.name) {
            Some((held, Some(expires))) if held.token == lease.token => {
                *expires = Instant::now() + ttl;
                Owned::Yes
            }
            _ => Owned::No,
        }
    }

    pub(super) fn release(&mut self, lease: &Lease) {
        if let Some((held, expires)) = self.leases.get_mut(&lease.name)
            && held.token == lease.token
        {
            *expires = None;
        }
    }
}
