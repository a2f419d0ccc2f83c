//! `mutations`: proves that the simulation finds bugs.
//!
//! The sources are copied, one line of the loop is made wrong, and seeds are run until
//! one fails. A mutation that no seed catches fails the program, and so does one whose
//! line is not found any more: then the list has to follow the code.

mod list;
mod workshop;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use list::MUTATIONS;
use tokio::time::Instant;
use workshop::{Caught, Result, Workshop};

/// How many mutations are tried at once.
const WORKSHOPS: usize = 2;

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
    let missed = AtomicUsize::new(0);
    let open = Mutex::new(chosen.iter());
    let next = || open.lock().ok()?.next();
    let work = |workshop: &Workshop| -> Result<()> {
        while let Some(mutation) = next() {
            let began = Instant::now();
            let caught = workshop.tries(mutation)?;
            let seconds = began.elapsed().as_secs();
            match &caught {
                Caught::By(violation) => {
                    println!("caught  {:<50} {violation} ({seconds} s)", mutation.name);
                }
                Caught::Never => {
                    missed.fetch_add(1, Relaxed);
                    println!("MISSED  {:<50} ({seconds} s)", mutation.name);
                }
            }
        }
        Ok(())
    };
    let result = Workshop::open(WORKSHOPS).and_then(|workshops| {
        thread::scope(|scope| {
            let working: Vec<_> = workshops
                .iter()
                .map(|workshop| scope.spawn(|| work(workshop)))
                .collect();
            let panicked = || Err("a workshop panicked".into());
            let mut joined = working.into_iter().map(|it| it.join());
            joined.try_for_each(|done| done.unwrap_or_else(|_| panicked()))
        })?;
        Ok(missed.load(Relaxed))
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
