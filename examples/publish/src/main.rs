//! An application that changes a row and publishes an event in one transaction.
//!
//! ```console
//! $ DATABASE_URL=postgres://… cargo run -p example-publish
//! ```
//!
//! Run `sinks migrate` on that database first. Either both the row and the event are
//! there afterwards, or neither.

use anyhow::Context;
use outbox::NewEvent;
use serde::Serialize;
use sqlx::{Connection, PgConnection};

#[derive(Serialize)]
struct Paid {
    total_cents: i64,
    currency: &'static str,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "an example has one setting")]
    let url = std::env::var("DATABASE_URL").context("set DATABASE_URL to your Postgres")?;
    let mut connection = PgConnection::connect(&url)
        .await
        .context("connect to the database")?;
    sqlx::query("create table if not exists orders (id bigserial primary key, state text)")
        .execute(&mut connection)
        .await?;

    let mut tx = connection.begin().await?;
    // 1. The change.
    let order: i64 = sqlx::query_scalar("insert into orders (state) values ('paid') returning id")
        .fetch_one(&mut *tx)
        .await?;
    // 2. The event about it, in the same transaction.
    let event = NewEvent::new("order.paid", "ten_1", format!("order/{order}")).data(&Paid {
        total_cents: 1250,
        currency: "EUR",
    })?;
    let published = outbox::publish(&mut tx, event)
        .await
        .context("publish the event")?;
    // 3. Both, or neither.
    tx.commit().await?;

    #[expect(clippy::print_stdout, reason = "this is what the example shows")]
    {
        println!(
            "order {order} is paid; event {} is at {}",
            published.id, published.position
        );
    }
    Ok(())
}
