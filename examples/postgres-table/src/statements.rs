//! The statements, with the quoted names of the tables put in once. Values are bound.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// What the sink says to the database.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    pub(crate) there: Arc<str>,
    pub(crate) create: Arc<str>,
    pub(crate) check: Arc<str>,
    pub(crate) begin_sink: Arc<str>,
    pub(crate) lock: Arc<str>,
    pub(crate) upsert: Arc<str>,
    pub(crate) advance: Arc<str>,
}

impl Statements {
    /// For two tables, whose names are quoted already.
    pub(crate) fn new(events: &str, progress: &str) -> Self {
        // Who may not create tables may still use those that are there.
        let there = format!(
            "select to_regclass('{events}') is not null and to_regclass('{progress}') is not null"
        );
        let create = format!(
            "create table if not exists {events} (
                 key text primary key, id text not null, type text not null,
                 tenant_id text not null, subject text not null,
                 txid bigint not null, seq bigint not null, body text not null
             );
             create table if not exists {progress} (sink text primary key, progress text)"
        );
        let check = format!(
            "select exists (select from {events}), exists (select from {progress}),
                 (
                     select bool_and(has_table_privilege(name, privilege))
                     from unnest(array['{events}', '{progress}']) as name,
                         unnest(array['select', 'insert', 'update']) as privilege
                 ) and not pg_is_in_recovery()"
        );
        let begin_sink =
            format!("insert into {progress} (sink) values ($1) on conflict do nothing");
        let lock = format!("select progress from {progress} where sink = $1 for update");
        // What is delivered apart may be older than what is there, and does not replace it. In
        // the flow the later event counts, whatever its position: after a restore the
        // positions may begin anew.
        let upsert = format!(
            "insert into {events} as kept (key, id, type, tenant_id, subject, txid, seq, body)
             select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
                 $6::bigint[], $7::bigint[], $8::text[])
             on conflict (key) do update set
                 id = excluded.id, type = excluded.type, tenant_id = excluded.tenant_id,
                 subject = excluded.subject, txid = excluded.txid, seq = excluded.seq,
                 body = excluded.body
             where not $9 or (kept.txid, kept.seq) <= (excluded.txid, excluded.seq)"
        );
        let advance = format!("update {progress} set progress = $2 where sink = $1");
        let shared = |text: String| Arc::from(text);
        Self {
            there: shared(there),
            create: shared(create),
            check: shared(check),
            begin_sink: shared(begin_sink),
            lock: shared(lock),
            upsert: shared(upsert),
            advance: shared(advance),
        }
    }
}

/// A statement of [`Statements`]: only names that the settings have checked are in it.
pub(crate) fn sql(text: &Arc<str>) -> SqlStr {
    AssertSqlSafe(Arc::clone(text)).into_sql_str()
}
