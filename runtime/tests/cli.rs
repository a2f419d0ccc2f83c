//! The binary as an operator meets it, as far as no server is needed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `sinks` in a folder, with no variable of ours set.
fn sinks(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinks"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("SINKS_CONFIG")
        .env_remove("DATABASE_URL")
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

fn status(output: &Output) -> i32 {
    output.status.code().expect("no signal ended it")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("results are UTF-8")
}

#[test]
fn a_missing_configuration_is_told_with_the_command_that_writes_one() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        &["run"][..],
        &["check"],
        &["migrate"],
        &["publish"],
        &["status"],
        &["dead-letters", "list"],
        &["dead-letters", "show", "1"],
        &["dead-letters", "discard", "--all"],
        &["pause", "a"],
        &["resume", "a"],
        &["seek", "a", "--to", "head"],
        &["forget", "a"],
        &["prune"],
        &["adopt"],
    ] {
        let output = sinks(folder.path(), command);
        let expected =
            "error: there is no sinks.toml: `sinks init` writes one, --config names another\n";
        assert_eq!((status(&output), stderr(&output).as_str()), (2, expected));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn init_writes_the_reference_and_overwrites_nothing_unless_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sinks.toml");
    let output = sinks(folder.path(), &["init"]);
    assert_eq!(status(&output), 0, "{output:?}");
    let reference = std::fs::read_to_string("../sinks.toml").unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), reference);

    std::fs::write(&file, "mine").unwrap();
    let output = sinks(folder.path(), &["init"]);
    assert_eq!(status(&output), 2);
    assert_eq!(
        stderr(&output),
        "error: sinks.toml exists already: --force overwrites it\n"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");

    let output = sinks(folder.path(), &["init", "--force"]);
    assert_eq!(status(&output), 0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), reference);
}

#[test]
fn the_schema_is_printed_whether_or_not_there_is_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let output = sinks(folder.path(), &["config", "schema"]);
    assert_eq!(status(&output), 0, "{output:?}");
    let schema: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let draft = "https://json-schema.org/draft/2020-12/schema";
    assert_eq!(schema["$schema"], draft);
    assert_eq!(schema["title"], "sinks.toml");
    assert!(schema.get("$id").is_none());
    let tables = schema["properties"].as_object().unwrap();
    let tables: Vec<_> = tables.keys().collect();
    assert_eq!(
        tables,
        [
            "cursor",
            "database",
            "http",
            "log",
            "poll",
            "retention",
            "sinks",
            "worker"
        ]
    );
}

#[test]
fn every_problem_is_a_line_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[database]\nurl = \"${DATABASE_URL}\"\nshcema = \"x\"\n[sinks.a]\nbatch_sise = 5\n";
    std::fs::write(folder.path().join("my.toml"), text).unwrap();
    for command in ["check", "run"] {
        let output = sinks(folder.path(), &[command, "--config", "my.toml"]);
        assert_eq!(status(&output), 2);
        let shown = stderr(&output);
        for expected in [
            "my.toml:2:7: database.url: the environment variable DATABASE_URL is not set",
            "my.toml:3:1: database.shcema: unknown key; did you mean `schema`?",
            "my.toml:5:1: sinks.a.batch_sise: unknown key",
        ] {
            assert!(shown.contains(expected), "{shown}");
        }
    }
}

#[test]
fn an_unreachable_database_is_one_sentence_without_the_password() {
    // H38
    let folder = tempfile::tempdir().unwrap();
    let text = "[database]\nurl = \"postgres://user:hunter2@127.0.0.1:1/shop\"\n\
                [log]\nfilter = \"trace\"\n[sinks.a.file]\npath = \"x.ndjson\"\n";
    std::fs::write(folder.path().join("sinks.toml"), text).unwrap();
    for command in [
        &["migrate"][..],
        &["status"],
        &["publish"],
        &["migrate", "--dry-run"],
        &["seek", "a", "--to", "2h"],
        &["prune"],
        &["adopt"],
    ] {
        let output = sinks(folder.path(), command);
        let (shown, printed) = (stderr(&output), stdout(&output));
        assert_eq!(status(&output), 3, "{shown}");
        let sentence = shown
            .lines()
            .find(|line| line.starts_with("error: "))
            .unwrap();
        assert!(
            sentence.contains("127.0.0.1:1, database `shop`"),
            "{sentence}"
        );
        assert!(
            !format!("{shown}{printed}").contains("hunter2"),
            "{shown}{printed}"
        );
    }
}

#[test]
fn what_an_order_lacks_or_can_not_mean_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    for (command, expected) in [
        (&["dead-letters", "replay"][..], "or say --all"),
        (&["dead-letters", "discard", "--dry-run"], "or say --all"),
        (
            &["dead-letters", "replay", "--all", "--id", "5"],
            "contradict",
        ),
        (
            &["dead-letters", "list", "--type", "nodot"],
            "matches no event type",
        ),
        (
            &["dead-letters", "list", "--before", "soon"],
            "an age such as",
        ),
        (&["seek", "a"], "--to <WHERE>"),
        (
            &["seek", "a", "--to", "soon"],
            "beginning, head, or a position",
        ),
        (
            &["run", "--role", "cook"],
            "[possible values: sinks, retention, http]",
        ),
        (&["forget"], "<NAME>"),
    ] {
        let output = sinks(folder.path(), command);
        let shown = stderr(&output);
        assert_eq!(status(&output), 2, "{command:?}: {shown}");
        assert!(shown.contains(expected), "{command:?}: {shown}");
    }
}

#[test]
fn the_help_of_run_says_what_is_answered_over_http_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let shown = stdout(&sinks(folder.path(), &["run", "--help"]));
    let expected = [
        "[http]", "/metrics", "/healthz", "/readyz", "/status", "http:",
    ];
    for expected in expected {
        assert!(shown.contains(expected), "{expected:?} in {shown}");
    }
}

#[test]
fn help_shows_the_commands_and_the_exit_statuses() {
    let folder = tempfile::tempdir().unwrap();
    let output = sinks(folder.path(), &["--help"]);
    assert_eq!(status(&output), 0);
    let shown = stdout(&output);
    for expected in [
        "check",
        "--config <FILE>",
        "SINKS_CONFIG",
        "3  the database",
    ] {
        assert!(shown.contains(expected), "{shown}");
    }
    assert_eq!(status(&sinks(folder.path(), &["nonsense"])), 2);
    let version = stdout(&sinks(folder.path(), &["--version"]));
    assert_eq!(version, format!("sinks {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_documented_exit_statuses_are_those_of_the_help() {
    let folder = tempfile::tempdir().unwrap();
    let help = stdout(&sinks(folder.path(), &["--help"]));
    let documented = std::fs::read_to_string("../docs/operate.md").unwrap();
    let mut found = 0;
    for line in help
        .lines()
        .skip_while(|line| *line != "Exit status:")
        .skip(1)
    {
        let (number, meaning) = line.trim().split_once("  ").expect("number and meaning");
        let row = format!("| {number} | {}", meaning.trim_start_matches("dev: "));
        let other = format!(
            "| {number} | `dev`: {}",
            meaning.trim_start_matches("dev: ")
        );
        assert!(
            documented.contains(&row) || documented.contains(&other),
            "{line}"
        );
        found += 1;
    }
    assert_eq!(found, 8);
}
