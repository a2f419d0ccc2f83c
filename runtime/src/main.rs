//! The binary `sinks`.
fn main() {}
