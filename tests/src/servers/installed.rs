//! Where the servers are installed: `servers.env`, which `scripts/setup-test-servers` writes into
//! its cache last of all. Versions are pinned in that script alone.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The path under `key` in `servers.env`, which exists.
///
/// Panics with what to do when the server is not installed.
pub(super) fn path_of(key: &str) -> PathBuf {
    let path = table().get(key).cloned().unwrap_or_default();
    assert!(
        path.exists(),
        "{key} is not installed ({}): run `make test-servers`",
        cache().join("servers.env").display(),
    );
    path
}

fn table() -> &'static HashMap<String, PathBuf> {
    static TABLE: OnceLock<HashMap<String, PathBuf>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let text = std::fs::read_to_string(cache().join("servers.env")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.split_once('='))
            .map(|(key, path)| (key.to_owned(), PathBuf::from(path)))
            .collect()
    })
}

/// Where the servers are installed. The same rule as in the script: root's servers lie where everybody can read them, because
/// Postgres runs as nobody then.
pub fn cache() -> PathBuf {
    if let Some(cache) = environment("OUTBOX_SINKS_CACHE") {
        return cache.into();
    }
    if rustix::process::geteuid().is_root() {
        return Path::new("/var/cache/outbox-sinks").to_owned();
    }
    environment("XDG_CACHE_HOME")
        .map_or_else(
            || PathBuf::from(environment("HOME").unwrap_or_default()).join(".cache"),
            PathBuf::from,
        )
        .join("outbox-sinks")
}

/// A variable that is set and not empty.
pub(super) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
