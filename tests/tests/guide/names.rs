//! What the page names exists: links and their headings, the kit's rules, items of the contract.

use std::collections::BTreeSet;
use std::path::Path;

use outbox_sinks::conformance::Rule;
use outbox_sinks::{ErrorKind, Verdict};

use super::{GUIDE, ROOT, read};

/// The rows of the table whose heading begins so, cell by cell.
fn table(heading: &str) -> Vec<Vec<String>> {
    let page = read(GUIDE);
    let rows: Vec<_> = page
        .lines()
        .skip_while(|line| !line.starts_with(heading))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(|it| it.trim().to_owned())
                .collect()
        })
        .collect();
    assert!(rows.len() > 3, "a table that begins with {heading}");
    rows
}

/// What stands between backticks, outside of blocks.
fn quoted(text: &str) -> Vec<String> {
    let mut outside = true;
    let prose: Vec<_> = text
        .lines()
        .filter(|line| {
            let fence = line.starts_with("```");
            outside ^= fence;
            outside && !fence
        })
        .collect();
    let prose = prose.join("\n");
    prose
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let page = read(GUIDE);
    let links: Vec<_> = page
        .split("](")
        .skip(1)
        .map(|rest| rest.split(')').next().unwrap())
        .collect();
    assert!(links.len() > 8, "{links:?}");
    for link in links {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = if path.is_empty() {
            GUIDE.to_owned()
        } else {
            format!("docs/{path}")
        };
        assert!(Path::new(ROOT).join(&path).exists(), "{link}");
        if !heading.is_empty() {
            let headings: Vec<_> = read(&path).lines().filter_map(anchor).collect();
            assert!(
                headings.contains(&heading.to_owned()),
                "{link}: {headings:?}"
            );
        }
    }
}

/// The anchor that a heading gets.
fn anchor(line: &str) -> Option<String> {
    let title = line
        .strip_prefix('#')?
        .trim_start_matches('#')
        .trim()
        .to_lowercase();
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
}

#[test]
fn the_contract_names_every_rule_of_the_kit_and_no_other() {
    let named: BTreeSet<_> = table("| | the contract")
        .iter()
        .flat_map(|row| quoted(&row[2]))
        .collect();
    let rules: BTreeSet<_> = Rule::ALL
        .iter()
        .map(|rule| rule.name().to_owned())
        .collect();
    assert_eq!(named, rules);
}

#[test]
fn the_table_of_errors_names_every_verdict_and_every_kind() {
    let rows = table("| what you see");
    let named: BTreeSet<_> = rows.iter().flat_map(|row| quoted(&row[1])).collect();
    let kinds = [
        ErrorKind::Unavailable,
        ErrorKind::Failed,
        ErrorKind::Misconfigured,
        ErrorKind::Fenced,
    ];
    let refusal = || outbox_sinks::Refusal::new("X", "x");
    let verdicts = [
        Verdict::Delivered,
        Verdict::Undeliverable(refusal()),
        Verdict::Refused(refusal()),
        Verdict::Unconfirmed,
    ];
    let kinds = kinds.map(|kind| format!("{kind:?}"));
    let verdicts =
        verdicts.map(|verdict| format!("{verdict:?}").split('(').next().unwrap().to_owned());
    assert_eq!(named, kinds.into_iter().chain(verdicts).collect());
}

/// `Type::name` on the page is an item of that type in the two crates of the contract.
#[test]
fn every_item_that_is_named_exists() {
    let mut sources = Vec::new();
    for folder in ["outbox/src", "sinks/src"] {
        collect(&Path::new(ROOT).join(folder), &mut sources);
    }
    let items: BTreeSet<_> = quoted(&read(GUIDE))
        .into_iter()
        .filter(|it| {
            it.starts_with(|c: char| c.is_ascii_uppercase())
                && it.contains("::")
                && !it.contains(' ')
        })
        .collect();
    assert!(items.len() > 8, "{items:?}");
    for item in items {
        let path = item.split('(').next().unwrap();
        let (owner, name) = path.split_once("::").unwrap();
        let defines = |source: &String| {
            let owned = ["struct", "enum", "trait"].iter().any(|it| {
                source.contains(&format!("pub {it} {owner} "))
                    || source.contains(&format!("pub {it} {owner}:"))
                    || source.contains(&format!("pub {it} {owner}("))
            });
            let implemented = source.contains(&format!("impl {owner} "));
            let named = [
                format!("fn {name}("),
                format!(" {name},"),
                format!(" {name}("),
                format!("const {name}:"),
            ];
            (owned || implemented) && named.iter().any(|it| source.contains(it))
        };
        assert!(sources.iter().any(defines), "{item}");
    }
}

fn collect(folder: &Path, sources: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else {
            sources.push(std::fs::read_to_string(path).unwrap());
        }
    }
}
