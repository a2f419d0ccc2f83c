//! The table, and that the README prints the same one.

use super::*;

const README: &str = include_str!("../../README.md");

/// What the README calls it, the errors, and the class.
type Row = (&'static str, Vec<Trouble>, &'static str);

/// What the README calls it, what Redis says, and the class.
const ANSWERS: &[(&str, &[&str], &str)] = &[
    (
        "command or stream not allowed (`NOPERM`)",
        &["NOPERM this user has no permissions to run the 'xadd' command"],
        "misconfigured",
    ),
    (
        "memory full (`OOM`)",
        &[
            "OOM command not allowed when used memory > 'maxmemory'.",
            "EXECABORT Transaction discarded because of: OOM command not allowed.",
        ],
        "unavailable",
    ),
    (
        "server is a replica (`READONLY`)",
        &[
            "READONLY You can't write against a read only replica.",
            "EXECABORT Transaction discarded because of: READONLY You can't write.",
        ],
        "unavailable",
    ),
    (
        "server can't write to its disk (`MISCONF`)",
        &["MISCONF Errors writing to the AOF file: No space left on device"],
        "unavailable",
    ),
    (
        "too few replicas (`NOREPLICAS`)",
        &["NOREPLICAS Not enough good replicas to write."],
        "unavailable",
    ),
    (
        "`LOADING`, `MASTERDOWN`, `CLUSTERDOWN`, `TRYAGAIN`, `BUSY`",
        &[
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down",
            "CLUSTERDOWN The cluster is down",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "BUSY Redis is busy running a script.",
        ],
        "unavailable",
    ),
    (
        "too many clients",
        &["ERR max number of clients reached"],
        "unavailable",
    ),
    (
        "`MOVED`, `ASK`, `CROSSSLOT`",
        &[
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 127.0.0.1:6381",
            "CROSSSLOT Keys in request don't hash to the same slot",
        ],
        "misconfigured",
    ),
    (
        "transaction discarded, for another reason (`EXECABORT`)",
        &["EXECABORT Transaction discarded because of previous errors."],
        "unavailable",
    ),
    (
        "command not known",
        &["ERR unknown command 'XADD', with args beginning with: 'hush' "],
        "misconfigured",
    ),
    (
        "the key holds no stream (`WRONGTYPE`)",
        &["WRONGTYPE Operation against a key holding the wrong kind of value"],
        "refused or misconfigured",
    ),
    (
        "the stream's ids have reached their end",
        &["ERR The stream has exhausted the last possible ID, unable to add more items"],
        "refused or misconfigured",
    ),
    (
        "any other answer",
        &[
            "ERR something of a later version hush",
            "NOVEL hush",
            "NOSCRIPT hush",
        ],
        "misconfigured",
    ),
    (
        "login refused (`NOAUTH`, `WRONGPASS`)",
        &[
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "ERR AUTH <password> called without any password configured for the default user.",
            "ERR invalid password",
        ],
        "misconfigured",
    ),
];

fn table() -> Vec<Row> {
    let said = |lines: &[&str]| lines.iter().map(|line| answer(line)).collect();
    let answers = ANSWERS
        .iter()
        .map(|(name, lines, class)| (*name, said(lines), *class));
    answers.chain(client()).chain(losses()).collect()
}

/// Errors of the client library.
fn client() -> Vec<Row> {
    let io = |kind: io::ErrorKind| Trouble::from(RedisError::from(io::Error::from(kind)));
    let tls = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::DecryptError);
    let library = |kind: Kind| Trouble::from(RedisError::from((kind, "the library's words")));
    vec![
        (
            "server not reached, connection lost",
            vec![
                io(io::ErrorKind::ConnectionRefused),
                io(io::ErrorKind::BrokenPipe),
                io(io::ErrorKind::UnexpectedEof),
                library(Kind::ClusterConnectionNotFound),
            ],
            "unavailable",
        ),
        (
            "no answer within `response_timeout`",
            vec![io(io::ErrorKind::TimedOut)],
            "unavailable",
        ),
        (
            "TLS handshake failed",
            vec![RedisError::from(tls).into()],
            "misconfigured",
        ),
        (
            "settings that the client can't use",
            vec![library(Kind::InvalidClientConfig), library(Kind::Client)],
            "misconfigured",
        ),
        (
            "an answer that is not Redis'",
            vec![library(Kind::Parse), library(Kind::UnexpectedReturnType)],
            "misconfigured",
        ),
    ]
}

/// Servers that would lose what they acknowledge.
fn losses() -> Vec<Row> {
    let row = |name, loss| {
        (
            name,
            vec![Trouble::from(Failure::Loses(loss))],
            "misconfigured",
        )
    };
    vec![
        row("no append-only log", Loss::NoLog),
        row(
            "log synced less often than `durability` wants",
            Loss::SyncsLate,
        ),
        row(
            "log not synced while it is rewritten",
            Loss::SyncsNotDuringRewrites,
        ),
        row("streams may be evicted", Loss::Evicts),
        row("server does not tell how it syncs", Loss::Untold),
    ]
}

fn answer(line: &str) -> Trouble {
    let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
    let redis::Value::ServerError(error) = value else {
        panic!("{line} is an error")
    };
    Trouble::from(&error)
}

#[test]
fn the_readme_has_the_same_table() {
    for (name, troubles, expected) in table() {
        for trouble in troubles {
            let (class, advice) = classify(trouble.failure);
            let class = match class {
                Class::Stream(_) => "refused or misconfigured",
                Class::Batch(kind) => kind.as_str(),
            };
            assert_eq!(class, expected, "{name}: {trouble:?}");
            let row = format!("| {name} | {class} | {advice} |");
            assert!(README.contains(&row), "the README lacks this row:\n{row}");
        }
    }
}

#[test]
fn the_readme_has_no_other_rows() {
    let rows = README
        .lines()
        .skip_while(|line| !line.starts_with("| what happens"))
        .skip(2);
    let rows = rows.take_while(|line| line.starts_with('|')).count();
    assert_eq!(rows, table().len());
}

/// Redis quotes the arguments of a command it does not know.
#[test]
fn what_may_quote_a_secret_or_a_payload_is_not_passed_on() {
    for (_, troubles, _) in table() {
        for trouble in troubles {
            let error = trouble.error("add to Redis");
            assert!(!format!("{error:?}").contains("hush"), "{error:?}");
        }
    }
}

#[test]
fn what_the_server_says_is_passed_on_where_redis_fixes_the_words() {
    let error = answer("OOM command not allowed when used memory > 'maxmemory'.").error("add");
    assert!(
        error.chain().contains("OOM command not allowed"),
        "{error:?}"
    );
}
