//! What the figures were measured on.

use outbox_tests::servers;

/// A few lines: processor, kernel, and the servers' versions.
pub async fn describe() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("an unknown processor", |line| {
        line.trim_start_matches([' ', '\t', ':'])
    });
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let memory = read("/proc/meminfo");
    let memory = memory.lines().next().unwrap_or_default();
    let memory = memory
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok());
    let gib = memory.unwrap_or_default() >> 20;
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    let servers = servers::list().await;
    let mut text = format!(
        "{cores} cores ({model}), {gib} GiB, Linux {}, load {load} at the start\n",
        kernel.trim()
    );
    for server in servers {
        text.push_str(&format!("{}: {}\n", server.name, server.version));
    }
    text
}
