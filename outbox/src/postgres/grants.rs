//! The least rights that a publisher and a worker need.
//!
//! A publisher may call the publishing functions, which act with their owner's
//! rights: it can't touch the table, so it can't forge a position or skip a rule.
//! A worker may read events and keep cursors, leases and dead letters; it can neither
//! publish nor delete an event.

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

/// The statements that let `role` publish.
#[must_use]
pub fn publisher_grants(schema: &Schema, role: &str) -> String {
    fill(PUBLISHER, schema, role)
}

/// The statements that let `role` run a worker.
#[must_use]
pub fn worker_grants(schema: &Schema, role: &str) -> String {
    fill(WORKER, schema, role)
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

/// Grants a publisher's and a worker's rights to the roles that are named, all
/// or none. The connection's role must own the tables.
///
/// # Errors
/// [`DatabaseError`]; the roles must exist.
pub async fn grant(
    connection: &mut PgConnection,
    schema: &Schema,
    publisher: Option<&str>,
    worker: Option<&str>,
) -> Result<(), DatabaseError> {
    let mut transaction = connection.begin().await?;
    let publisher = publisher.map(|role| publisher_grants(schema, role));
    let worker = worker.map(|role| worker_grants(schema, role));
    for statements in publisher.into_iter().chain(worker) {
        sqlx::raw_sql(AssertSqlSafe(statements))
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
        let grants = publisher_grants(&schema, r#"a"b{schema}"#);
        let first = r#"grant usage on schema "{role}" to "a""b{schema}";"#;
        assert_eq!(grants.lines().next(), Some(first));
    }
}
