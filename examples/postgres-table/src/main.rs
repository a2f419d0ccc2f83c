//! The binary: everything that `sinks` can do, with one kind of sink more.
//!
//! ```console
//! $ cargo run -p example-postgres-table -- --config sinks.toml check --online
//! ```

use std::process::ExitCode;

use example_postgres_table::PostgresTable;
use outbox_runtime::{Registry, cli};

fn main() -> ExitCode {
    cli::main(Registry::builtin().register::<PostgresTable>())
}
