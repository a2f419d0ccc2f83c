//! What is in the outbox: events of one size, ten a transaction, with a thousand keys.

use anyhow::Result;
use outbox_tests::servers::Database;
use sqlx::{AssertSqlSafe, Executor, PgConnection};

/// The number of different subjects, which are the keys.
pub const KEYS: u32 = 1_000;
/// Events in a transaction.
pub const ROWS_A_TRANSACTION: u32 = 10;

/// Events of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// For people: `300 B`.
    pub name: &'static str,
    /// The payload's length as text, in bytes, give or take the digits of its number.
    pub bytes: u32,
    /// How many of them make a backlog.
    pub events: u32,
}

/// The four sizes, each with as many events as Kafka takes in a little more than a second.
pub const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "300 B",
        bytes: 300,
        events: 250_000,
    },
    Workload {
        name: "1 KiB",
        bytes: 1_024,
        events: 150_000,
    },
    Workload {
        name: "16 KiB",
        bytes: 16 * 1_024,
        events: 12_000,
    },
    Workload {
        name: "64 KiB",
        bytes: 64 * 1_024 - 256,
        events: 3_000,
    },
];

/// Everything but the padding, in jsonb's own spacing.
const FRAME_BYTES: u32 = 200;

/// An outbox that was filled.
#[derive(Debug)]
pub struct Backlog {
    /// Where it is.
    pub database: Database,
    /// The workload's name.
    pub name: &'static str,
    /// How many events there are.
    pub events: u32,
    /// The bytes of all messages in the format `native`.
    pub native_bytes: u64,
}

impl Backlog {
    /// Looks how large it is.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn measure(database: Database, workload: &Workload) -> Result<Self> {
        let sql = "select sum(octet_length(payload::text)
                    + octet_length(',\"sequence\":\"' || txid || '.' || seq || '\"'))::bigint
                   from outbox";
        let mut connection = database.connect().await;
        let bytes: i64 = sqlx::query_scalar(sql).fetch_one(&mut connection).await?;
        Ok(Self {
            database,
            name: workload.name,
            events: workload.events,
            native_bytes: u64::try_from(bytes)?,
        })
    }

    /// The bytes of all messages as lines.
    #[must_use]
    pub fn object_bytes(&self) -> u64 {
        self.native_bytes + u64::from(self.events)
    }

    /// How many rows a reader should take at once: a thousand, or as many as are 4 MiB.
    #[must_use]
    pub fn rows_of_a_page(&self) -> u64 {
        let bytes = self.native_bytes / u64::from(self.events.max(1));
        ((4 << 20) / bytes.max(1)).clamp(1, 1_000)
    }
}

impl Workload {
    /// The same sizes with other numbers of events.
    #[must_use]
    pub fn with_events<const N: usize>(sizes: [Self; N], events: [u32; N]) -> [Self; N] {
        let mut events = events.into_iter();
        sizes.map(|size| Self {
            events: events.next().unwrap_or(size.events),
            ..size
        })
    }

    /// Fills the outbox with all of its events, and settles it.
    ///
    /// # Errors
    /// If the database refuses it.
    pub async fn fill(&self, connection: &mut PgConnection) -> Result<()> {
        connection
            .execute("alter table outbox add column if not exists aggregateid text")
            .await?;
        self.append(connection, 0, self.events).await?;
        connection.execute("vacuum analyze outbox").await?;
        // So that no checkpoint of what was just written falls into a measurement.
        connection.execute("checkpoint").await?;
        Ok(())
    }

    /// Inserts `events` after the first `before`: event number `n` (from 1) has the subject
    /// `node/<n % KEYS>` and `data.n = n`, so that the number within a key rises with the order.
    /// The padding is hexadecimal noise, which no compression shrinks by more than half. A
    /// column `aggregateid` repeats the subject for readers that can't look into the payload.
    ///
    /// # Errors
    /// If the database refuses it.
    pub async fn append(
        &self,
        connection: &mut PgConnection,
        before: u32,
        events: u32,
    ) -> Result<()> {
        // The load itself is not measured, and its commits need not be flushed one by one.
        connection.execute("set synchronous_commit = off").await?;
        let padding = self.bytes.saturating_sub(FRAME_BYTES);
        let hashes = padding.div_ceil(32).max(1);
        let transactions = events / ROWS_A_TRANSACTION;
        // One pad a transaction: making noise costs more than inserting it.
        let sql = format!(
            "do $$
             declare pad text;
             begin
                 for t in 0..{transactions} - 1 loop
                     select left(string_agg(md5(random()::text), ''), {padding}) into pad
                     from generate_series(1, {hashes});
                     insert into outbox (topic, payload, aggregateid)
                     select 'node.connected', jsonb_build_object(
                         'id', 'evt_' || lpad(n::text, 26, '0'), 'type', 'node.connected',
                         'tenantId', 'ten_1', 'subject', 'node/' || n % {KEYS},
                         'time', '2026-09-24T10:15:02.114Z',
                         'data', jsonb_build_object('n', n, 'pad', pad)
                     ), 'node/' || n % {KEYS}
                     from generate_series(
                         {before} + t * {ROWS_A_TRANSACTION} + 1,
                         {before} + (t + 1) * {ROWS_A_TRANSACTION}
                     ) as n;
                     commit;
                 end loop;
             end $$"
        );
        connection.execute(AssertSqlSafe(sql)).await?;
        Ok(())
    }
}
