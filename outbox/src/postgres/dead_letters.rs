//! Dead letters: writing them, counting recent ones, and delivering them again.
//!
//! A dead letter has its own copy of the event, since retention may take the
//! original. It is unique by sink and position (OB-7). A replay never touches the
//! cursor's position; it is written under the cursor's token all the same (OB-3).

use std::time::Duration;

use sqlx::Postgres;
use sqlx::postgres::{PgArguments, PgBindIterExt};
use sqlx::query::Query;

use super::cursor::consumer;
use super::database::Database;
use super::error::DatabaseError;
use super::lease::{Lease, interval};
use super::schema::Schema;
use super::settle::column;
use super::settlement::{DeadLetter, Owned, Replay, ReplayOutcome};
use super::text::{code_text, error_text, whole_text};
use crate::{Event, Position, Txid};

/// The statement that writes those dead letters, at least one, that the cursor has not
/// passed. The cursor's row must be locked.
///
/// One that was replayed or discarded is dead again: a seek has brought the event back,
/// and it was refused anew.
pub(super) fn insert<'q>(
    schema: &Schema,
    sink: &'q str,
    letters: &'q [DeadLetter],
) -> Query<'q, Postgres, PgArguments> {
    let sql = schema.sql(
        "insert into {schema}.outbox_dead_letters as letter
             (sink, txid, seq, event_id, topic, payload, damage, code, error, attempts,
              first_failed_at)
         select $2, new.txid, new.seq, new.event_id, new.topic, new.payload, new.damage,
             new.code, new.error, new.attempts,
             case when (kept.suspect_txid, kept.suspect_seq) = (new.txid, new.seq)
                 then kept.suspect_since else {schema}.compute_now() end
         from unnest($3, $4, $5, $6, $7, $8, $9, $10, $11)
             as new (txid, seq, event_id, topic, payload, damage, code, error, attempts)
         cross join {schema}.outbox_cursors as kept
         where kept.stream = 'outbox' and kept.consumer = $1
             and (new.txid, new.seq) > (kept.txid, kept.seq)
         order by new.txid, new.seq
         on conflict (sink, txid, seq) do update
         set state = 'dead', code = excluded.code, error = excluded.error,
             attempts = excluded.attempts, first_failed_at = excluded.first_failed_at,
             dead_lettered_at = excluded.dead_lettered_at,
             state_changed_at = excluded.state_changed_at
         where letter.state in ('replayed', 'discarded')",
    );
    let letters = || letters.iter();
    let events = || letters().map(|letter| &letter.event);
    let payloads = events().map(|event| whole_text(event.payload()));
    sqlx::query(sql)
        .bind(consumer(sink))
        .bind(sink)
        .bind(events().map(|event| event.position().txid).bind_iter())
        .bind(events().map(|event| event.position().seq).bind_iter())
        .bind(events().map(|event| whole_text(event.id())).bind_iter())
        .bind(events().map(|event| whole_text(event.topic())).bind_iter())
        .bind(payloads.bind_iter())
        .bind(events().map(Event::damage).bind_iter())
        .bind(letters().map(|one| code_text(&one.code)).bind_iter())
        .bind(letters().map(|one| error_text(&one.error)).bind_iter())
        .bind(letters().map(|one| column(one.attempts)).bind_iter())
}

impl Database {
    /// How many dead letters a sink has got within `window`, and since it was resumed
    /// the last time, except those of the events at `except`. What was replayed or
    /// discarded since then counts as well.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn recent_dead_letters(
        &self,
        sink: &str,
        window: Duration,
        except: &[Position],
    ) -> Result<u32, DatabaseError> {
        let sql = self.schema().sql(
            "select count(*) from {schema}.outbox_dead_letters
             where sink = $1 and dead_lettered_at > {schema}.compute_now() - $2
                 and (txid, seq) not in (select * from unnest($4::xid8[], $5::int8[]))
                 and dead_lettered_at > coalesce((
                     select resumed_at from {schema}.outbox_cursors
                     where stream = 'outbox' and consumer = $3
                 ), '-infinity')",
        );
        let query = sqlx::query_as(sql)
            .bind(sink)
            .bind(interval(window))
            .bind(consumer(sink))
            .bind(except.iter().map(|position| position.txid).bind_iter())
            .bind(except.iter().map(|position| position.seq).bind_iter());
        let mut checkout = self.checkout().await?;
        let (count,): (i64,) = self
            .within(query.fetch_one(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("count dead letters"))?;
        checkout.release();
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// The first dead letters of a sink, at most `limit`, that wait to be replayed.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn replays(&self, sink: &str, limit: u32) -> Result<Vec<Replay>, DatabaseError> {
        type Row = (i64, Txid, i64, String, String, Option<String>, i32);
        let sql = self.schema().sql(
            "select id, txid, seq, topic, payload, damage, replays
             from {schema}.outbox_dead_letters
             where sink = $1 and state = 'replaying'
             order by txid, seq limit $2",
        );
        let query = sqlx::query_as(sql).bind(sink).bind(i64::from(limit));
        let mut checkout = self.checkout().await?;
        let rows: Vec<Row> = self
            .within(query.fetch_all(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("read dead letters to be replayed"))?;
        checkout.release();
        let replays = rows
            .into_iter()
            .map(|(id, txid, seq, topic, payload, damage, replays)| {
                let event = Event::new(Position { txid, seq }, topic, payload);
                let count = u32::try_from(replays).unwrap_or(0).saturating_add(1);
                let event = event.with_damage(damage).as_replay(count);
                Replay { id, event }
            });
        Ok(replays.collect())
    }

    /// Writes what came of replays: a delivered one is done with, a refused one is dead
    /// for the new reason. That may be said of one more than once; the last word stands.
    /// One that was replayed or discarded meanwhile is left alone, and so is every one
    /// under another token.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn settle_replays(
        &self,
        sink: &str,
        lease: &Lease,
        outcomes: &[(i64, ReplayOutcome)],
    ) -> Result<Owned, DatabaseError> {
        // The lock makes the statement wait for a takeover and look again.
        let sql = self.schema().sql(
            "with owner as (
                 select from {schema}.outbox_cursors
                 where stream = 'outbox' and consumer = $1 and token = $2 for update
             ), written as (
                 update {schema}.outbox_dead_letters as letter
                 set state = outcome.state,
                     code = coalesce(outcome.code, letter.code),
                     error = coalesce(outcome.error, letter.error),
                     replays = letter.replays + case
                         when outcome.state = 'replaying' then -(letter.state = 'dead')::integer
                         else (letter.state = 'replaying')::integer
                     end,
                     state_changed_at = {schema}.compute_now()
                 from owner, unnest($4::int8[], $5::text[], $6::text[], $7::text[])
                     as outcome (id, code, error, state)
                 where letter.id = outcome.id and letter.sink = $3
                     and letter.state in ('replaying', 'dead')
             )
             select exists (select from owner)",
        );
        let ids: Vec<_> = outcomes.iter().map(|(id, _)| *id).collect();
        let refusals: Vec<_> = outcomes
            .iter()
            .map(|(_, outcome)| refusal(outcome))
            .collect();
        let (codes, errors): (Vec<_>, Vec<_>) = refusals.into_iter().unzip();
        let states: Vec<_> = outcomes.iter().map(|(_, outcome)| state(outcome)).collect();
        let query = sqlx::query_as(sql)
            .bind(consumer(sink))
            .bind(lease.token)
            .bind(sink)
            .bind(ids)
            .bind(codes)
            .bind(errors)
            .bind(states);
        let mut checkout = self.checkout().await?;
        let (owned,): (bool,) = self
            .within(query.fetch_one(&mut *checkout))
            .await
            .map_err(|error| error.while_doing("settle replays"))?;
        checkout.release();
        Ok(if owned { Owned::Yes } else { Owned::No })
    }
}

/// The code and the reason of a refusal.
fn refusal(outcome: &ReplayOutcome) -> (Option<String>, Option<String>) {
    match outcome {
        ReplayOutcome::Delivered | ReplayOutcome::Postponed => (None, None),
        ReplayOutcome::Refused { code, error } => (Some(code_text(code)), Some(error_text(error))),
    }
}

/// The state that a dead letter comes to.
const fn state(outcome: &ReplayOutcome) -> &'static str {
    match outcome {
        ReplayOutcome::Delivered => "replayed",
        ReplayOutcome::Refused { .. } => "dead",
        ReplayOutcome::Postponed => "replaying",
    }
}
