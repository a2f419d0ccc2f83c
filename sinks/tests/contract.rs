//! The crate as somebody meets it who writes a sink: what it costs to depend on, and that
//! everything public is shown at work.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The files of the contract: everything that is no destination of the project's own.
fn contract() -> Vec<PathBuf> {
    let rust_files = |folder: &str| {
        let entries =
            std::fs::read_dir(Path::new(CRATE).join(folder)).expect("the folder is there");
        let paths = entries.map(|entry| entry.expect("a folder can be read").path());
        paths.filter(|path| path.extension().is_some_and(|it| it == "rs"))
    };
    rust_files("src")
        .chain(rust_files("src/settings"))
        .collect()
}

/// The public items of a file, each with the lines of its documentation.
fn items(text: &str) -> Vec<(String, Vec<&str>)> {
    let mut found = Vec::new();
    let mut above = Vec::new();
    for line in text.lines() {
        let kinds = ["struct", "enum", "trait", "fn", "const fn", "async fn"];
        let item = kinds
            .iter()
            .find_map(|kind| line.strip_prefix(&format!("pub {kind} ")));
        if let Some(name) = item {
            let name = name
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next();
            found.push((name.unwrap_or_default().to_owned(), above.clone()));
        }
        if line.starts_with("///") {
            above.push(line);
        } else if !line.starts_with('#') {
            above.clear();
        }
    }
    found
}

/// Whether one of the fences that open a block lets rustdoc compile it.
fn has_example(documentation: &[&str]) -> bool {
    let fences = documentation
        .iter()
        .filter_map(|line| line.strip_prefix("/// ```"));
    let mut openings = fences.step_by(2);
    openings.any(|language| ["", "no_run"].contains(&language))
}

#[test]
fn everything_public_in_the_contract_has_an_example() {
    let mut names = Vec::new();
    let mut bare = Vec::new();
    for path in contract() {
        let text = std::fs::read_to_string(&path).unwrap();
        for (name, documentation) in items(&text) {
            if !has_example(&documentation) {
                bare.push(format!("{}: {name}", path.display()));
            }
            names.push(name);
        }
    }
    assert_eq!(bare, [""; 0]);
    for expected in ["Batch", "Sink", "Verdict", "from_fn", "Period", "Lines"] {
        assert!(names.iter().any(|name| name == expected), "{expected}");
    }
}

/// What `cargo tree` says of this crate without features, for every platform.
fn tree(more: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--package", "outbox-sinks"])
        .args([
            "--no-default-features",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}"])
        .args(more)
        .current_dir(CRATE)
        .output()
        .expect("cargo can be started");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("names are UTF-8");
    let names = text.lines().filter_map(|line| line.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "outbox-sinks");
    names.map(str::to_owned).collect()
}

/// Each of them is a decision: a custom sink pays for it.
#[test]
fn the_contract_alone_depends_on_a_handful_of_crates() {
    let direct = [
        "async-trait",     // the two traits stay dyn-compatible
        "bytes",           // a payload is shared and not copied
        "bytesize",        // `Size`
        "humantime-serde", // `Period`
        "outbox",          // the event
        "schemars",        // what a setting says of itself to an editor
        "secrecy",         // `Secret`
        "serde",           // settings
        "serde_json",      // text in JSON, and what schemars builds a schema of
    ];
    assert_eq!(tree(&["--depth", "1"]), direct.map(str::to_owned).into());
}

/// 26 in all: the 9 direct ones, what serde and serde_json are made of (5), what derives are
/// made of (4), what schemars adds (5: two of them for its own derive), `bytestring`, `humantime`
/// and `zeroize`.
#[test]
fn the_contract_alone_stays_small_and_without_a_runtime_or_a_client() {
    let all = tree(&[]);
    assert_eq!(all.len(), 26, "{all:?}");
    for heavy in ["tokio", "sqlx", "hyper", "rustls", "tracing"] {
        let found: Vec<_> = all.iter().filter(|name| name.starts_with(heavy)).collect();
        assert!(found.is_empty(), "{found:?}");
    }
}

/// An application that publishes needs no schema of any configuration.
#[test]
fn the_event_model_knows_nothing_of_schemas() {
    let manifest = Path::new(CRATE).join("../outbox/Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    assert!(manifest.contains("[dependencies]"));
    assert!(!manifest.contains("schemars"));
}
