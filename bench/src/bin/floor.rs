//! What the relay is compared with, each a process of its own.

fn main() {}
