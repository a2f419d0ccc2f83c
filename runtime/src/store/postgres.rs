//! The store that is Postgres.
#[derive(Debug)]
pub struct PostgresStore;
