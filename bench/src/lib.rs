//! Measures the relay against the parts it is made of: ratios within one round, on one machine,
//! with the same rows, bytes and servers. No figure counts unless everything arrived in order.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark talks to people"
)]

pub mod cpu;
pub mod drain;
pub mod floor;
pub mod lab;
pub mod live;
pub mod machine;
pub mod program;
pub mod section;
pub mod stats;
pub mod target;
pub mod worker;
pub mod workload;
