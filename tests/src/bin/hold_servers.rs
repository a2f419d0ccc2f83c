//! Starts one Postgres and one NATS, prints where they listen and where their files are, and waits
//! to be killed. The test of what happens then runs it.

use std::io::Write;

use outbox_tests::servers::{Nats, Postgres};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let postgres = Postgres::newest().await;
    let nats = Nats::start().await;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{} {} {}",
        postgres.addr(),
        nats.addr(),
        nats.folder().display()
    )?;
    out.flush()?;
    std::future::pending::<()>().await;
    Ok(())
}
