//! The binary: everything that `sinks` can do, with one kind of sink more.
//!
//! ```console
//! $ cargo run -p example-redis-streams -- --config sinks.toml check --online
//! ```

use std::process::ExitCode;

use example_redis_streams::RedisStreams;
use outbox_runtime::{Registry, cli};

fn main() -> ExitCode {
    cli::main(Registry::builtin().register::<RedisStreams>())
}
