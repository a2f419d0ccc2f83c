//! Leases: who may do what alone, for a limited time.
//!
//! Only the database's clock counts. The token grows at each takeover, so that
//! what an earlier holder still writes can be told from what the present one
//! writes (OB-3). A lease alone fences nothing: whoever writes checks the token.

use std::time::Duration;

use sqlx::postgres::PgQueryResult;
use sqlx::postgres::types::PgInterval;

use super::cursor::consumer;
use super::database::Database;
use super::error::DatabaseError;
use super::settlement::Owned;

/// A lease that was taken. Whether it is still held, only the database knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What is held.
    pub name: String,
    /// By whom: unique for each running process.
    pub holder: String,
    /// Larger than every earlier holder's.
    pub token: i64,
    /// Whether another holder let it run out without releasing it: its process may
    /// have died.
    pub abandoned: bool,
}

/// A row of the table of leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    /// What is held.
    pub name: String,
    /// By whom; `None` once it is released.
    pub holder: Option<String>,
    /// The present or last holder's token.
    pub token: i64,
    /// How long it is still good for; `None` once it has expired or is released.
    pub expires_in: Option<Duration>,
}

/// What the names of the leases of sinks begin with.
pub(super) const SINK_LEASE: &str = "singleton:outbox-dispatch:";

/// The name of the lease under which rows of the outbox are deleted.
pub const RETENTION_LEASE: &str = "singleton:outbox-retention";

/// The name of the lease under which a sink's events are dispatched.
#[must_use]
pub fn sink_lease(sink: &str) -> String {
    format!("{SINK_LEASE}{sink}")
}

impl Database {
    /// Takes a lease that nobody holds: a new one, a released or an expired one,
    /// or one that this very holder took before.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn acquire_lease(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, DatabaseError> {
        // One reading of the clock serves the whole statement; a statement that
        // waited for a row lock could only make a lease look a little shorter.
        // A worker in waiting asks every second: the look before the insert keeps
        // that free of row locks, and so of transaction ids. A row that was lost or
        // restored from a backup does not know the last token, but the cursor does.
        // That a holder let it run out is kept until the next one renews it: an answer
        // that was lost and asked for again says so too.
        let sql = self.schema().sql(
            "insert into {schema}.leases as lease
                 (name, holder, token, acquired_at, renewed_at, expires_at)
             select $1, $2, 1 + coalesce((
                 select token from {schema}.outbox_cursors
                 where stream = 'outbox' and consumer = $4
             ), 0), moment, moment, moment + $3
             from (select {schema}.compute_now() as moment offset 0) as clock
             where not exists (
                 select from {schema}.leases
                 where name = $1 and holder <> $2 and expires_at > moment
             )
             on conflict (name) do update set
                 holder = excluded.holder,
                 token = greatest(lease.token + 1, excluded.token),
                 abandoned = lease.holder is not null
                     and (lease.abandoned or lease.holder <> excluded.holder),
                 acquired_at = excluded.acquired_at,
                 renewed_at = excluded.renewed_at,
                 expires_at = excluded.expires_at
             where lease.holder is null
                 or lease.holder = excluded.holder
                 or lease.expires_at <= {schema}.compute_now()
             returning token, abandoned",
        );
        let query = sqlx::query_as(sql)
            .bind(name)
            .bind(holder)
            .bind(interval(ttl))
            .bind(name.strip_prefix(SINK_LEASE).map(consumer));
        let mut checkout = self.checkout_for_lease().await?;
        let row: Option<(i64, bool)> = self
            .within(query.fetch_optional(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("acquire a lease"))?;
        checkout.release();
        Ok(row.map(|(token, abandoned)| Lease {
            name: name.to_owned(),
            holder: holder.to_owned(),
            token,
            abandoned,
        }))
    }

    /// Extends a lease, unless somebody else has taken it or it was released. One that
    /// expired and was not taken is extended.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn renew_lease(&self, lease: &Lease, ttl: Duration) -> Result<Owned, DatabaseError> {
        let sql = self.schema().sql(
            "update {schema}.leases
             set renewed_at = {schema}.compute_now(), expires_at = {schema}.compute_now() + $4,
                 abandoned = false
             where name = $1 and holder = $2 and token = $3",
        );
        let query = sqlx::query(sql)
            .bind(&lease.name)
            .bind(&lease.holder)
            .bind(lease.token)
            .bind(interval(ttl));
        let mut checkout = self.checkout_for_lease().await?;
        let done = self
            .within(query.execute(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("renew a lease"))?;
        checkout.release();
        Ok(Owned::if_changed(&done))
    }

    /// Extends several leases with one statement, and tells of each whether it was. One that
    /// somebody is writing at the moment is left: [`Database::renew_lease`] waits for it, and
    /// says how things stand.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn renew_leases(
        &self,
        leases: &[Lease],
        ttl: Duration,
    ) -> Result<Vec<bool>, DatabaseError> {
        let sql = self.schema().sql(
            "with held as (
                 select lease.name
                 from unnest($1::text[], $2::text[], $3::int8[]) as ours (name, holder, token)
                 join {schema}.leases as lease on lease.name = ours.name
                 where lease.holder = ours.holder and lease.token = ours.token
                 for update of lease skip locked
             )
             update {schema}.leases as lease
             set renewed_at = {schema}.compute_now(), expires_at = {schema}.compute_now() + $4,
                 abandoned = false
             from held where lease.name = held.name
             returning lease.name",
        );
        let names: Vec<_> = leases.iter().map(|it| it.name.as_str()).collect();
        let holders: Vec<_> = leases.iter().map(|it| it.holder.as_str()).collect();
        let tokens: Vec<_> = leases.iter().map(|it| it.token).collect();
        let query = sqlx::query_scalar(sql)
            .bind(names)
            .bind(holders)
            .bind(tokens)
            .bind(interval(ttl));
        let mut checkout = self.checkout_for_lease().await?;
        let renewed: Vec<String> = self
            .within(query.fetch_all(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("renew leases"))?;
        checkout.release();
        Ok(leases.iter().map(|it| renewed.contains(&it.name)).collect())
    }

    /// Gives a lease back, so that another may take it at once. Does nothing if
    /// somebody else has taken it. The row and its token stay.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn release_lease(&self, lease: &Lease) -> Result<(), DatabaseError> {
        let sql = self.schema().sql(
            "update {schema}.leases
             set holder = null, expires_at = {schema}.compute_now()
             where name = $1 and holder = $2 and token = $3",
        );
        let query = sqlx::query(sql)
            .bind(&lease.name)
            .bind(&lease.holder)
            .bind(lease.token);
        let mut checkout = self.checkout_for_lease().await?;
        self.within(query.execute(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("release a lease"))?;
        checkout.release();
        Ok(())
    }

    /// All leases, by name.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn lease_holders(&self) -> Result<Vec<LeaseHolder>, DatabaseError> {
        let sql = self.schema().sql(
            "select name, holder, token,
                 extract(epoch from expires_at - {schema}.compute_now())::float8
             from {schema}.leases order by name",
        );
        let mut checkout = self.checkout().await?;
        let rows: Vec<(String, Option<String>, i64, f64)> = self
            .within(sqlx::query_as(sql).fetch_all(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("list leases"))?;
        checkout.release();
        let holders = rows
            .into_iter()
            .map(|(name, holder, token, seconds)| LeaseHolder {
                name,
                expires_in: holder.as_ref().and_then(|_| seconds_left(seconds)),
                holder,
                token,
            });
        Ok(holders.collect())
    }
}

impl Owned {
    /// A write that met its conditions changed a row.
    pub(super) fn if_changed(done: &PgQueryResult) -> Self {
        match done.rows_affected() {
            0 => Self::No,
            _ => Self::Yes,
        }
    }
}

/// A duration from now, if it is still to come.
pub(crate) fn seconds_left(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|left| !left.is_zero())
}

/// A duration for SQL, to the microsecond and at most some thousand years.
pub(crate) fn interval(duration: Duration) -> PgInterval {
    PgInterval {
        months: 0,
        days: 0,
        microseconds: i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 64),
    }
}
