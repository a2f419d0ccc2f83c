//! Whether events have overtaken a dead letter: events of the same subject that its sink
//! has delivered since. Replaying it then changes their order (OB-4 speaks of the normal
//! flow), which an operator should know before.
//!
//! The effort is bounded, and what was pruned can't be looked at: the answer is "at
//! least so many", and whether there may be more.

use std::collections::{BTreeMap, HashMap, HashSet};

use sqlx::PgConnection;

use crate::postgres::cursor::consumer;
use crate::postgres::database::Database;
use crate::postgres::error::DatabaseError;
use crate::postgres::reader::PageRequest;
use crate::postgres::schema::Schema;
use crate::{Event, Filter, Position, Txid};

/// The most dead letters that are looked at; each may have a large payload.
const MAX_LETTERS: i64 = 200;
/// The most rows of the outbox that are looked at.
const MAX_ROWS: usize = 20_000;
/// The most dead letters that are told apart from what was delivered.
const MAX_SET_ASIDE: i64 = 10_000;
/// The most rows and bytes of one page.
const PAGE_ROWS: usize = 1_000;
const PAGE_BYTES: usize = 4 << 20;

/// What was found of overtaking events, among those that the sink takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Newer {
    /// How many of the dead letters were overtaken, as far as that was found.
    pub overtaken: u64,
    /// Whether there may be more.
    pub unsure: bool,
}

/// The sink, the position, the topic and the payload of a dead letter.
type Letter = (String, Txid, i64, String, String);

impl Database {
    /// Looks for events that have overtaken these dead letters.
    pub(super) async fn newer_events(
        &self,
        ids: &[i64],
        taken: &BTreeMap<String, Filter>,
    ) -> Result<Newer, DatabaseError> {
        let letters = self.letters(ids).await?;
        let mut newer = Newer {
            overtaken: 0,
            unsure: letters.len() < ids.len(),
        };
        let mut sinks: BTreeMap<&str, Vec<Event>> = BTreeMap::new();
        for (sink, txid, seq, topic, payload) in &letters {
            let position = Position {
                txid: *txid,
                seq: *seq,
            };
            let event = Event::new(position, topic.as_str(), payload.as_str());
            sinks.entry(sink).or_default().push(event);
        }
        let mut budget = MAX_ROWS;
        for (sink, events) in sinks {
            let filter = taken.get(sink);
            let all = Filter::default();
            let found = self
                .overtaken(sink, &events, filter.unwrap_or(&all), &mut budget)
                .await?;
            // Whether a sink that is configured elsewhere takes these is not known.
            newer.overtaken += filter.map_or(0, |_| found.overtaken);
            newer.unsure |= found.unsure || filter.is_none() && found.overtaken > 0;
        }
        Ok(newer)
    }

    async fn letters(&self, ids: &[i64]) -> Result<Vec<Letter>, DatabaseError> {
        let sql = self.schema().sql(
            "select sink, txid, seq, topic, payload from {schema}.outbox_dead_letters
             where id = any ($1) order by sink, txid, seq limit $2",
        );
        let query = sqlx::query_as(sql).bind(ids).bind(MAX_LETTERS);
        let mut checkout = self.checkout().await?;
        let letters = self.within(query.fetch_all(&mut *checkout)).await?;
        checkout.release();
        Ok(letters)
    }

    /// How many of one sink's events, which are in order, were overtaken.
    async fn overtaken(
        &self,
        sink: &str,
        letters: &[Event],
        filter: &Filter,
        budget: &mut usize,
    ) -> Result<Newer, DatabaseError> {
        let Some(passed) = self.passed(sink, letters).await? else {
            let unsure = true;
            return Ok(Newer {
                overtaken: 0,
                unsure,
            });
        };
        let behind = |letter: &&Event| letter.position() < passed.cursor;
        let letters: Vec<_> = letters.iter().filter(behind).collect();
        let Some(first) = letters.first().map(|letter| letter.position()) else {
            return Ok(Newer::default());
        };
        // For each subject, where its last event that was delivered stands.
        let mut last: HashMap<&str, Position> = HashMap::new();
        for letter in letters.iter().filter(|letter| !letter.subject().is_empty()) {
            last.insert(letter.subject(), Position::BEGINNING);
        }
        let mut reader = self.reader(filter).await?;
        let mut after = first;
        while *budget > 0 && after < passed.cursor {
            let page = reader.read(passed.page(after, *budget)).await?;
            for event in &page.events {
                let position = event.position();
                if let Some(at) = last.get_mut(event.subject())
                    && position <= passed.cursor
                    && !passed.set_aside.contains(&position)
                {
                    *at = position;
                }
            }
            *budget = budget.saturating_sub(page.rows_scanned.max(1));
            after = page.end;
        }
        let newest = |letter: &Event| last.get(letter.subject()).copied();
        let is_overtaken = |letter: &&&Event| newest(letter) > Some(letter.position());
        let overtaken = letters.iter().filter(is_overtaken).count();
        Ok(Newer {
            overtaken: u64::try_from(overtaken).unwrap_or(u64::MAX),
            unsure: after < passed.cursor || passed.oldest.is_none_or(|oldest| oldest > first),
        })
    }

    /// What a sink has passed. `None` without a cursor.
    async fn passed(&self, sink: &str, letters: &[Event]) -> Result<Option<Passed>, DatabaseError> {
        let first = letters.first().map_or(Position::BEGINNING, Event::position);
        let mut checkout = self.checkout().await?;
        let passed = self
            .within(passed(&mut checkout, self.schema(), sink, first))
            .await
            .map_err(|error| error.while_doing("look at a cursor"))?;
        checkout.release();
        Ok(passed)
    }
}

/// What a sink has passed.
struct Passed {
    cursor: Position,
    /// The first row that the outbox still has.
    oldest: Option<Position>,
    /// Its dead letters, which it passed without delivering them.
    set_aside: HashSet<Position>,
}

impl Passed {
    fn page(&self, after: Position, budget: usize) -> PageRequest {
        PageRequest {
            after,
            horizon: Txid(self.cursor.txid.0.saturating_add(1)),
            max_events: PAGE_ROWS.min(budget),
            max_bytes: PAGE_BYTES,
        }
    }
}

async fn passed(
    connection: &mut PgConnection,
    schema: &Schema,
    sink: &str,
    first: Position,
) -> Result<Option<Passed>, sqlx::Error> {
    let sql = schema.sql(
        "select kept.txid, kept.seq, oldest.txid, oldest.seq
         from {schema}.outbox_cursors as kept
         left join lateral (
             select txid, seq from {schema}.outbox order by txid, seq limit 1
         ) as oldest on true
         where kept.stream = 'outbox' and kept.consumer = $1",
    );
    type Row = (Txid, i64, Option<Txid>, Option<i64>);
    let row: Option<Row> = sqlx::query_as(sql)
        .bind(consumer(sink))
        .fetch_optional(&mut *connection)
        .await?;
    let Some((txid, seq, oldest_txid, oldest_seq)) = row else {
        return Ok(None);
    };
    let sql = schema.sql(
        "select txid, seq from {schema}.outbox_dead_letters
         where sink = $1 and (txid, seq) > ($2, $3) and state <> 'replayed'
         order by txid, seq limit $4",
    );
    let set_aside: Vec<(Txid, i64)> = sqlx::query_as(sql)
        .bind(sink)
        .bind(first.txid)
        .bind(first.seq)
        .bind(MAX_SET_ASIDE)
        .fetch_all(connection)
        .await?;
    let position = |(txid, seq)| Position { txid, seq };
    Ok(Some(Passed {
        cursor: position((txid, seq)),
        oldest: oldest_txid.zip(oldest_seq).map(position),
        set_aside: set_aside.into_iter().map(position).collect(),
    }))
}
