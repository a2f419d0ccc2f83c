//! The binary `sinks`: the kinds that are built in, and the command line.

use std::process::ExitCode;

use outbox_runtime::{Registry, cli};

fn main() -> ExitCode {
    cli::main(Registry::builtin())
}
