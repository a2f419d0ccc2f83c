//! `make bench`: measures, prints tables, and ends with a line a target.

fn main() {}
