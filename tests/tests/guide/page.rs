//! The page as a reader takes it: files to write, and commands to run.
//!
//! The line before a block says what it is: `` `src/lib.rs`: `` is a file of the reader's,
//! `[…](../path):` is an excerpt of a file in this repository. A block of the language `console`
//! holds commands, each behind `$ `, and below each what it prints. There is no other kind of
//! block: nothing on the page is left out by the one who follows it.

/// One thing that the page asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// A file of the reader's crate.
    File { path: String, text: String },
    /// An excerpt of a file in this repository.
    Excerpt { path: String, text: String },
    /// Commands, in one terminal.
    Console(Vec<Command>),
}

/// A command, and what it prints.
#[derive(Debug, PartialEq)]
pub(crate) struct Command {
    pub(crate) line: String,
    pub(crate) prints: Vec<String>,
}

/// All steps of a page, in order.
pub(crate) fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut before = "";
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            if !line.trim().is_empty() {
                before = line;
            }
            continue;
        };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        steps.push(step(language, before, &block));
        before = "";
    }
    steps
}

fn step(language: &str, before: &str, block: &[&str]) -> Step {
    if language == "console" {
        return Step::Console(commands(block));
    }
    let text = block.join("\n") + "\n";
    let file = before
        .strip_prefix('`')
        .and_then(|it| it.strip_suffix("`:"));
    let link = before
        .strip_suffix("):")
        .and_then(|it| it.rsplit_once("](../"));
    match (file, link) {
        (Some(path), _) => Step::File {
            path: path.to_owned(),
            text,
        },
        (_, Some((_, path))) => Step::Excerpt {
            path: path.to_owned(),
            text,
        },
        _ => panic!("whose is this block of `{language}`? Before it stands: {before}\n{text}"),
    }
}

fn commands(block: &[&str]) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(line), _) => commands.push(Command {
                line: line.to_owned(),
                prints: Vec::new(),
            }),
            (None, Some(command)) => command.prints.push((*line).to_owned()),
            (None, None) => panic!("a block of commands begins with `$ `, not with {line}"),
        }
    }
    commands
}

#[test]
fn a_page_is_taken_apart_into_files_excerpts_and_commands() {
    let page = "Text.\n\n`a.rs`:\n\n```rust\nfn a() {}\n```\n\nFrom [b](../x/b.rs):\n\n```rust\nb\n```\n\n\
                ```console\n$ one\n$ two\n2\n```\n";
    let command = |line: &str, prints: &[&str]| Command {
        line: line.to_owned(),
        prints: prints.iter().map(|it| (*it).to_owned()).collect(),
    };
    let expected = [
        Step::File {
            path: "a.rs".to_owned(),
            text: "fn a() {}\n".to_owned(),
        },
        Step::Excerpt {
            path: "x/b.rs".to_owned(),
            text: "b\n".to_owned(),
        },
        Step::Console(vec![command("one", &[]), command("two", &["2"])]),
    ];
    assert_eq!(steps(page), expected);
}

#[test]
#[should_panic(expected = "whose is this block of `rust`?")]
fn a_block_that_belongs_to_no_file_is_a_mistake() {
    steps("Text.\n\n```rust\nfn a() {}\n```\n");
}
