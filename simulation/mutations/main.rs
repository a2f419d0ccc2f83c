//! `mutations`: proves that the simulation finds bugs.
//!
//! The sources are copied, one line of the loop is made wrong, and seeds are run until
//! one fails. A mutation that no seed catches fails the program, and so does one whose
//! line is not found any more: then the list has to follow the code.

mod list;
mod workshop;

use std::process::ExitCode;

use list::MUTATIONS;
use tokio::time::Instant;
use workshop::{Caught, Workshop};

#[expect(clippy::print_stdout, reason = "what it prints is what it is for")]
fn main() -> ExitCode {
    let only = std::env::args().nth(1);
    let chosen: Vec<_> = MUTATIONS
        .iter()
        .filter(|mutation| {
            only.as_deref()
                .is_none_or(|only| mutation.name.contains(only))
        })
        .collect();
    let result = Workshop::open().and_then(|workshop| {
        let mut missed = 0;
        for mutation in &chosen {
            let began = Instant::now();
            let caught = workshop.tries(mutation)?;
            let seconds = began.elapsed().as_secs();
            match &caught {
                Caught::By(violation) => {
                    println!("caught  {:<50} {violation} ({seconds} s)", mutation.name);
                }
                Caught::Never => {
                    missed += 1;
                    println!("MISSED  {:<50} ({seconds} s)", mutation.name);
                }
            }
        }
        Ok(missed)
    });
    match result {
        Ok(missed) => {
            println!("mutations: {} tried, {missed} missed", chosen.len());
            ExitCode::from(u8::from(missed > 0))
        }
        Err(error) => {
            println!("mutations: {error}");
            ExitCode::FAILURE
        }
    }
}
