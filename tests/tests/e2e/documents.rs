//! What the README shows works.

use std::path::Path;

use sqlx::{AssertSqlSafe, Executor};

use super::fixture::Scene;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The fenced blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let opening = format!("```{language}\n");
    let after = text.split(&opening).skip(1);
    let blocks: Vec<_> = after
        .map(|rest| rest.split("\n```").next().unwrap().to_owned())
        .collect();
    assert!(!blocks.is_empty(), "the README shows some {language}");
    blocks
}

#[tokio::test]
async fn the_configuration_in_the_readme_is_right() {
    let scene = Scene::empty().await;
    for block in blocks("toml") {
        scene.write("sinks.toml", &block);
        scene.sinks(&["check"]).await.succeeded();
    }
}

#[tokio::test]
async fn the_sql_in_the_readme_runs() {
    let scene = Scene::new().await;
    let mut connection = scene.connect().await;
    connection
        .execute("create table orders (id int, state text)")
        .await
        .unwrap();
    for block in blocks("sql") {
        connection.execute(AssertSqlSafe(block)).await.unwrap();
    }
    assert_eq!(super::fixture::published(scene.database()).await.len(), 1);
}

#[tokio::test]
async fn the_commands_in_the_readme_exist() {
    let scene = Scene::empty().await;
    for line in blocks("console")
        .join("\n")
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
    {
        let command = line.split('#').next().unwrap();
        let words: Vec<_> = command.split_whitespace().collect();
        match words.split_first() {
            Some((&"sinks", args)) => {
                let help = [args, &["--help"]].concat();
                scene.sinks(&help).await.succeeded();
            }
            Some((&"make", args)) => {
                let plan = [&["--dry-run", "--directory", ROOT], args].concat();
                scene.finish(Path::new("make"), &plan).await.succeeded();
            }
            _ => panic!("the test does not know how to check `{line}`"),
        }
    }
}

#[test]
fn every_path_in_the_architecture_exists() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let quoted = text.split('`').skip(1).step_by(2);
    let paths: Vec<_> = quoted
        .filter(|quoted| quoted.contains('/') && !quoted.contains(['<', ' ']))
        .filter(|quoted| quoted.starts_with(|first: char| first.is_ascii_lowercase()))
        .collect();
    assert!(paths.len() > 15, "{paths:?}");
    for path in paths {
        assert!(Path::new(ROOT).join(path).exists(), "{path}");
    }
}
