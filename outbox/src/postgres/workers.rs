//! The census: which workers are alive, what each could run and what it holds, so that
//! they can spread the sinks over themselves.
//!
//! It decides nothing and guards nothing: who may run a sink is the lease's affair.

use std::time::Duration;

use super::database::Database;
use super::error::DatabaseError;
use super::lease::{SINK_LEASE, interval};
use super::settlement::Member;

impl Database {
    /// Says that a worker is alive, for `ttl` from now, and which sinks it could run.
    /// Returns all workers that are alive, this one included, in order of their names.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn census(
        &self,
        holder: &str,
        sinks: &[String],
        ttl: Duration,
    ) -> Result<Vec<Member>, DatabaseError> {
        // What the first part writes is not yet visible to the last. Rows of workers
        // that ended without a word go after a day; two that clear up at once do not
        // wait for each other.
        let sql = self.schema().sql(
            "with this as (
                 insert into {schema}.outbox_workers (holder, sinks, expires_at)
                 values ($1, $2, {schema}.compute_now() + $3)
                 on conflict (holder) do update
                 set sinks = excluded.sinks, expires_at = excluded.expires_at
                 returning holder, sinks
             ), cleared as (
                 delete from {schema}.outbox_workers where holder in (
                     select holder from {schema}.outbox_workers
                     where holder <> $1
                         and expires_at < {schema}.compute_now() - interval '1 day'
                     for update skip locked
                 )
             ), alive as (
                 select holder, sinks from this
                 union all
                 select holder, sinks from {schema}.outbox_workers
                 where holder <> $1 and expires_at > {schema}.compute_now()
             )
             select alive.holder, alive.sinks, array(
                 select substr(lease.name, char_length($4) + 1) from {schema}.leases as lease
                 where lease.holder = alive.holder and starts_with(lease.name, $4)
                     and lease.expires_at > {schema}.compute_now()
                 order by lease.name collate \"C\"
             )
             from alive order by alive.holder collate \"C\"",
        );
        let query = sqlx::query_as(sql)
            .bind(holder)
            .bind(sinks)
            .bind(interval(ttl))
            .bind(SINK_LEASE);
        let mut checkout = self.checkout().await?;
        let rows: Vec<(String, Vec<String>, Vec<String>)> = self
            .within(query.fetch_all(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("take the census of workers"))?;
        checkout.release();
        let members = rows.into_iter().map(|(holder, sinks, held)| Member {
            holder,
            sinks,
            held,
        });
        Ok(members.collect())
    }

    /// Says that a worker ends.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn leave(&self, holder: &str) -> Result<(), DatabaseError> {
        let sql = self
            .schema()
            .sql("delete from {schema}.outbox_workers where holder = $1");
        let mut checkout = self.checkout().await?;
        self.within(sqlx::query(sql).bind(holder).execute(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("leave the census of workers"))?;
        checkout.release();
        Ok(())
    }
}
