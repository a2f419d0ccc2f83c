//! The least rights that each duty needs.
//!
//! A publisher may call the publishing functions, which act with their owner's
//! rights: it can't touch the table, so it can't forge a position or skip a rule.
//! A worker may read events and keep cursors, leases and dead letters; it can neither
//! publish nor delete an event. Retention may delete events and move no cursor. An
//! operator may write the columns that a worker obeys, add to the record of orders and
//! change nothing in it; to touch an event or to save a position is not in their power.
//! Whoever writes those columns by hand is obeyed without a row in the record: no grant
//! can tell a command from a statement.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::error::DatabaseError;
use super::schema::{Schema, quote};

const PUBLISHER: &str = "\
grant usage on schema {schema} to {role};
grant execute on function
    {schema}.outbox_append(text, text, text, text),
    {schema}.outbox_publish(text, text, text, text),
    {schema}.outbox_publish(text, text, text, jsonb),
    {schema}.outbox_publish(text, text, text, json)
to {role};
";

const WORKER: &str = "\
grant usage on schema {schema} to {role};
grant select on {schema}.outbox, {schema}.outbox_migrations, {schema}.outbox_operations to {role};
grant select, insert, update on
    {schema}.outbox_cursors, {schema}.leases, {schema}.outbox_dead_letters
to {role};
grant select, insert, update, delete on {schema}.outbox_workers to {role};
grant execute on function {schema}.compute_now() to {role};
";

const RETENTION: &str = "\
grant usage on schema {schema} to {role};
grant select, delete on {schema}.outbox to {role};
grant select on
    {schema}.outbox_cursors, {schema}.outbox_operations, {schema}.outbox_migrations
to {role};
grant select, insert, update on {schema}.leases to {role};
grant execute on function {schema}.compute_now() to {role};
";

const OPERATOR: &str = "\
grant usage on schema {schema} to {role};
grant select on
    {schema}.outbox, {schema}.outbox_cursors, {schema}.outbox_dead_letters,
    {schema}.outbox_operations, {schema}.outbox_migrations, {schema}.leases
to {role};
grant update (paused_at, paused_by, pause_reason, resumed_at, attempts, next_retry_at,
    seek_txid, seek_seq), delete
on {schema}.outbox_cursors to {role};
grant update (state, state_changed_at) on {schema}.outbox_dead_letters to {role};
grant execute on function
    {schema}.compute_now(), {schema}.outbox_record(text, text, text, text)
to {role};
";

/// What a role is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Publishing events.
    Publisher,
    /// Running the sinks.
    Worker,
    /// Deleting what every sink has passed.
    Retention,
    /// Looking at the sinks and ordering things.
    Operator,
}

impl Duty {
    /// The statements that let `role` do it.
    #[must_use]
    pub fn grants(self, schema: &Schema, role: &str) -> String {
        let statements = match self {
            Self::Publisher => PUBLISHER,
            Self::Worker => WORKER,
            Self::Retention => RETENTION,
            Self::Operator => OPERATOR,
        };
        fill(statements, schema, role)
    }
}

/// The role goes in first: a schema's name may look like a placeholder, and a
/// role's name too, but neither is looked at again.
fn fill(statements: &str, schema: &Schema, role: &str) -> String {
    let role = quote(role);
    let parts: Vec<_> = statements
        .split("{role}")
        .map(|part| part.replace("{schema}", schema.quoted()))
        .collect();
    parts.join(&role)
}

/// Grants roles what they need for their duties, all or none. The connection's role must
/// own the tables.
///
/// # Errors
/// [`DatabaseError`]; the roles must exist.
pub async fn grant(
    connection: &mut PgConnection,
    schema: &Schema,
    roles: &[(Duty, &str)],
) -> Result<(), DatabaseError> {
    let mut transaction = connection.begin().await?;
    for (duty, role) in roles {
        sqlx::raw_sql(AssertSqlSafe(duty.grants(schema, role)))
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_looked_at_once() {
        let schema = Schema::new("{role}").unwrap();
        let grants = Duty::Publisher.grants(&schema, r#"a"b{schema}"#);
        let first = r#"grant usage on schema "{role}" to "a""b{schema}";"#;
        assert_eq!(grants.lines().next(), Some(first));
    }
}
