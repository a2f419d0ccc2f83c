//! The guide `docs/write-a-sink.md`, followed to the letter: files are written and commands are
//! run in an empty folder as they stand on the page, and what they print is compared.
//!
//! What a reader has and the page does not give is provided here: a database in `DATABASE_URL`,
//! and, as long as these very sources are the version that the page speaks of, a
//! `[patch.crates-io]` behind the page's `Cargo.toml` and this workspace's `Cargo.lock`.
#![cfg(test)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, also in the functions that its tests share"
)]

mod compare;
mod follow;
mod names;
mod page;
mod shell;

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../");

/// The page, below the root.
const GUIDE: &str = "docs/write-a-sink.md";

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}{path}")).unwrap_or_else(|why| panic!("{path}: {why}"))
}
