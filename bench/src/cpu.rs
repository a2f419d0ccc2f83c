//! What a process has cost so far, as the kernel counts it.

use std::fs::read_to_string;
use std::ops::{Add, Sub};
use std::time::Duration;

use anyhow::{Context, Result};

/// What one process, or several together, have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// User and system time, those of threads that have ended included.
    pub cpu: Duration,
    /// How often a thread gave the processor up or lost it. Only of threads that still live.
    pub switches: u64,
}

impl Cost {
    /// What `pid` has used up to now. The kernel counts it twice: in ticks, of 10 ms mostly, for
    /// the whole process, and in nanoseconds for each thread that lives. Neither counts too
    /// much, so the greater one is nearer.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn of(pid: u32) -> Result<Self> {
        let stat = read_to_string(format!("/proc/{pid}/stat"))
            .with_context(|| format!("process {pid} has ended"))?;
        // "pid (name) state ppid …", where the name may hold anything.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut ticks = fields.split_whitespace().skip(11);
        let mut next = || ticks.next().and_then(|field| field.parse::<u64>().ok());
        let (user, system) = (next().unwrap_or_default(), next().unwrap_or_default());
        let a_second = rustix::param::clock_ticks_per_second().max(1);
        let counted = Duration::from_nanos((user + system) * (1_000_000_000 / a_second));
        Ok(Self {
            cpu: counted.max(threads_time(pid)),
            switches: switches(pid),
        })
    }

    /// What all of these have used; one that has ended counts as nothing.
    #[must_use]
    pub fn of_all(pids: &[u32]) -> Self {
        let costs = pids.iter().filter_map(|&pid| Self::of(pid).ok());
        costs.fold(Self::default(), Add::add)
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            switches: self.switches + other.switches,
        }
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}

/// The time that the living threads have had, as far as the kernel keeps such accounts.
fn threads_time(pid: u32) -> Duration {
    let time = |account: String| account.split(' ').next()?.parse::<u64>().ok();
    let times = of_threads(pid, "schedstat");
    Duration::from_nanos(times.into_iter().filter_map(time).sum())
}

fn switches(pid: u32) -> u64 {
    let of_thread = |status: String| -> u64 {
        let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
        counts
            .filter_map(|line| line.rsplit(char::is_whitespace).next()?.parse::<u64>().ok())
            .sum()
    };
    let statuses = of_threads(pid, "status");
    statuses.into_iter().map(of_thread).sum()
}

/// A file of the kernel's for each thread; none if the process has ended.
fn of_threads(pid: u32, file: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    threads
        .filter_map(|thread| read_to_string(thread.path().join(file)).ok())
        .collect()
}

/// The most memory that `pid` has had at once, in bytes.
///
/// # Errors
/// If there is no such process.
pub fn peak_rss(pid: u32) -> Result<u64> {
    let status = read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| {
        line.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .ok()
    });
    Ok(kib.context("the kernel tells the peak of a process' memory")? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_process_has_used_something() {
        let start = tokio::time::Instant::now();
        let mut sum = 0_u64;
        while start.elapsed() < Duration::from_millis(60) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let cost = Cost::of(std::process::id()).unwrap();
        assert!(cost.cpu >= Duration::from_millis(20), "{cost:?}");
        assert!(peak_rss(std::process::id()).unwrap() > 1 << 20);
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        assert!(Cost::of(u32::MAX).is_err());
    }
}
