//! The configuration as an operator meets it: files in, problems out.

use std::collections::BTreeMap;
use std::time::Duration;

use outbox_sinks::settings::Secret;
use outbox_sinks::{Connector, Delivery, Problems as KindProblems, SinkKind, Template, from_fn};
use serde::Deserialize;

use super::*;
use crate::settings::{OnPoison, PoisonSettings, Roles};

/// A kind that did not ask for strictness itself, and holds a secret and a port.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only read")]
struct Settings {
    address: String,
    token: Option<Secret>,
    #[serde(default)]
    port: u16,
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    tls: Tls,
    #[serde(default)]
    options: BTreeMap<String, String>,
    #[serde(default)]
    routes: Vec<Template>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tls {
    ca_file: String,
    pin: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Fast,
    Careful,
}

struct Carrier;
struct Other;

impl SinkKind for Carrier {
    const NAME: &'static str = "carrier";
    type Settings = Settings;

    fn connector(_: &str, settings: Settings) -> Result<Box<dyn Connector>, KindProblems> {
        let mut problems = KindProblems::default();
        if settings.tls.pin.len() > 3 {
            problems.add("tls.pin", "a pin has at most 3 digits");
        }
        if settings.address.is_empty() {
            problems.add("address", "an address is never empty");
        }
        problems.into_result()?;
        Ok(Box::new(from_fn(|_| async { Ok(Delivery::All) })))
    }
}

impl SinkKind for Other {
    const NAME: &'static str = "other";
    type Settings = Tls;

    fn connector(_: &str, _: Tls) -> Result<Box<dyn Connector>, KindProblems> {
        Ok(Box::new(from_fn(|_| async { Ok(Delivery::All) })))
    }
}

fn registry() -> Registry {
    Registry::empty().register::<Carrier>().register::<Other>()
}

const DATABASE: &str = "[database]\nurl = \"postgres://u:p@h/d\"\n";

fn parse(text: &str) -> Result<Config, Problems> {
    let environment = Environment::fixed([("DATABASE_URL", "postgres://u:hunter2@h/d")]);
    Config::parse("sinks.toml", text, &registry(), &environment)
}

/// The problems of `[database]` and this text, which begins in line 3.
fn problems(text: &str) -> Vec<String> {
    let text = format!("{DATABASE}{text}");
    let problems = parse(&text).expect_err("something is wrong");
    problems.to_string().lines().map(str::to_owned).collect()
}

const SINK: &str = "[sinks.a.carrier]\naddress = \"x\"\n";

#[test]
fn a_small_file_is_enough() {
    let config = parse(&format!("{DATABASE}{SINK}")).unwrap();
    let [sink] = config.sinks.as_slice() else {
        panic!("one sink");
    };
    assert_eq!((sink.kind, sink.settings.name.as_str()), ("carrier", "a"));
    assert!(sink.settings.filter.takes_all());
    assert_eq!(sink.settings.poison, PoisonSettings::default());
    assert_eq!(config.worker.lease_ttl, Duration::from_secs(30));
    assert_eq!(config.worker.roles, Roles::ALL);
    assert!(config.http.listen.ip().is_loopback());
    assert_eq!(config.worker.retention, RetentionSettings::default());
    assert!(!format!("{config:?}").contains("u:p"));
}

#[test]
fn everything_can_be_said() {
    let config = parse(&format!(
        "{DATABASE}schema = \"ob\"\n[worker]\nname = \"w\"\nlease_ttl = \"2m\"\nroles = [\"retention\"]\n\
         [retention]\nmin_age = \"2h\"\ninterval = \"10s\"\n\
         [poll]\nmax_interval = \"1s\"\n[http]\nlisten = \"[::]:0\"\n[log]\nformat = \"json\"\n\
         [sinks.a]\nevents = [\"node.*\"]\ntenants = [\"t\"]\nstart = \"head\"\non_poison = \"halt\"\n\
         batch = {{ max_events = 5, max_bytes = \"64KiB\", max_wait = \"3s\" }}\n\
         retry = {{ initial = \"2s\", max = \"4s\" }}\n\
         poison = {{ attempts = 3, max_dead_letters = 7, window = \"2m\" }}\n\
         [sinks.a.carrier]\naddress = \"x\"\noptions = {{ \"any.key\" = \"1\" }}\n"
    ))
    .unwrap();
    let sink = &config.sinks[0].settings;
    assert_eq!(sink.batch.max_bytes, Some(65536));
    assert_eq!(sink.retry.max, Duration::from_secs(4));
    let expected = PoisonSettings {
        attempts: 3,
        on_poison: OnPoison::Halt,
        max_dead_letters: 7,
        window: Duration::from_secs(120),
    };
    assert_eq!(sink.poison, expected);
    let Roles {
        sinks,
        retention,
        http,
    } = config.worker.roles;
    assert!(retention && !sinks && !http);
    assert_eq!(config.worker.retention.min_age, Duration::from_secs(7_200));
    assert_eq!(config.worker.retention.interval, Duration::from_secs(10));
    assert_eq!(config.http.listen.to_string(), "[::]:0");
    assert!(config.worker.holder.starts_with("w-"));
    assert_eq!(config.database.schema.name(), "ob");
}

#[test]
fn a_typo_in_any_table_is_an_error_with_its_line_and_the_nearest_key() {
    // H33
    for (text, expected) in [
        (
            "shcema = \"x\"\n",
            "3:1: database.shcema: unknown key; did you mean `schema`?",
        ),
        (
            "[wroker]\n",
            "3:2: wroker: unknown key; did you mean `worker`?",
        ),
        (
            "[worker]\nlease_tll = \"1s\"\n",
            "4:1: worker.lease_tll: unknown key; did you mean `lease_ttl`?",
        ),
        (
            "[poll]\nmax_intervall = \"1s\"\n",
            "4:1: poll.max_intervall: unknown key; did you mean `max_interval`?",
        ),
        (
            "[cursor]\nidle_safe = \"1s\"\n",
            "4:1: cursor.idle_safe: unknown key; did you mean `idle_save`?",
        ),
        (
            "[log]\n  formt = \"text\"\n",
            "4:3: log.formt: unknown key; did you mean `format`?",
        ),
        (
            "[sinks.a]\nevnts = []\n",
            "4:1: sinks.a.evnts: unknown key; did you mean `events`?",
        ),
        (
            "[sinks.a]\nbatch_sise = 5\n",
            "4:1: sinks.a.batch_sise: unknown key; did you mean `batch`?",
        ),
        (
            "[sinks.a.batch]\nmax_evnets = 5\n",
            "4:1: sinks.a.batch.max_evnets: unknown key; did you mean `max_events`?",
        ),
        (
            "[sinks.a.retry]\nintial = \"1s\"\n",
            "4:1: sinks.a.retry.intial: unknown key; did you mean `initial`?",
        ),
    ] {
        let found = problems(&format!("{text}{SINK}"));
        assert_eq!(found, [format!("sinks.toml:{expected}")], "{text}");
    }
    let found = problems(&format!("{SINK}prot = 5\ntls = {{ ca_fiel = \"x\" }}\n"));
    assert_eq!(
        found,
        [
            "sinks.toml:5:1: sinks.a.carrier.prot: unknown key; did you mean `port`?",
            "sinks.toml:6:9: sinks.a.carrier.tls.ca_fiel: unknown key; did you mean `ca_file`?",
        ]
    );
    let found = problems("[sinks.a.carier]\naddress = \"x\"\n");
    assert_eq!(
        found,
        ["sinks.toml:3:10: sinks.a.carier: unknown key; did you mean `carrier`?"]
    );
}

#[test]
fn a_key_in_the_wrong_table_is_told_where_it_belongs() {
    // H33
    let found = problems(&format!(
        "[sinks.a]\nmax_events = 5\nlease_ttl = \"1s\"\n{SINK}"
    ));
    assert_eq!(
        found,
        [
            "sinks.toml:4:1: sinks.a.max_events: unknown key here; it belongs in [sinks.a.batch]",
            "sinks.toml:5:1: sinks.a.lease_ttl: unknown key here; it belongs in [worker]",
        ]
    );
    let found = problems(&format!("[sinks.a]\nwhatever = 5\n{SINK}"));
    assert!(
        found[0].contains("known here: batch, carrier, delivery_timeout"),
        "{found:?}"
    );
}

#[test]
fn all_problems_are_reported_at_once_in_the_files_order() {
    let found = problems(
        "max_connections = \"many\"\nconnect_timeout = 5\n\
         [worker]\nlease_ttl = \"0s\"\nfoo = 1\n\
         [log]\nformat = \"jsno\"\n\
         [sinks.A.carrier]\naddress = \"${MISSING}\"\nport = 70000\nmode = \"carefull\"\n\
         [sinks.b]\nevents = [\"order.*\", \"nodot\"]\nstart = 1\nretry = { initial = \"2m\", max = \"1m\" }\n",
    );
    let expected = [
        "3:19: database.max_connections: expected u32, found string",
        "4:19: database.connect_timeout: expected a duration such as \"250ms\", \"30s\" or \"5m\", found integer",
        "6:1: worker.lease_ttl: must be between 1s and 1h",
        "7:1: worker.foo: unknown key; known here: lease_ttl, name, roles, shutdown_timeout",
        "9:10: log.format: expected `text` or `json`; did you mean `json`?",
        "10:8: sinks.A: a sink's name is 1 to 63 of a-z, 0-9, _ and -, and starts with a letter or digit",
        "11:11: sinks.A.carrier.address: the environment variable MISSING is not set; set it, or write ${MISSING:-default}",
        "12:8: sinks.A.carrier.port: expected u16",
        "13:8: sinks.A.carrier.mode: expected `fast` or `careful`; did you mean `careful`?",
        "14:8: sinks.b: no destination: add a table [sinks.b.KIND], where KIND is one of carrier, other",
        "15:22: sinks.b.events: matches no event type: write a type such as order.paid, a family such as order.*, or *",
        "16:9: sinks.b.start: expected string or table, found integer",
        "17:11: sinks.b.retry.initial: must not be longer than retry.max",
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|line| format!("sinks.toml:{line}"))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn what_decides_about_poison_and_retention_has_limits() {
    let found = problems(&format!(
        "[worker]\nroles = []\n[retention]\nmin_age = \"100years\"\ninterval = \"0s\"\n\
         [sinks.a]\non_poison = \"drop\"\n\
         [sinks.a.poison]\nattempts = 0\nmax_dead_letters = 0\nwindow = \"0s\"\n{SINK}\
         [sinks.b]\nother = {{}}\npoison = {{ attempts = -1 }}\n"
    ));
    let expected = [
        "4:1: worker.roles: a worker has at least one role: sinks, retention, http",
        "6:1: retention.min_age: must be between 0s and 10years",
        "7:1: retention.interval: must be between 1s and 1day",
        "9:13: sinks.a.on_poison: expected `dead-letter` or `halt`",
        "11:1: sinks.a.poison.attempts: must be between 1 and 1000",
        "12:1: sinks.a.poison.max_dead_letters: must be between 1 and 1000000",
        "13:1: sinks.a.poison.window: must be between 1s and 30days",
        "18:23: sinks.b.poison.attempts: expected u32",
    ];
    let expected = expected.map(|line| format!("sinks.toml:{line}"));
    assert_eq!(found, expected);
    for (text, expected) in [
        (
            "[sinks.a.poison]\nwindows = 5\n",
            "4:1: sinks.a.poison.windows: unknown key; did you mean `window`?",
        ),
        (
            "[retention]\nmax_age = \"1h\"\n",
            "4:1: retention.max_age: unknown key; did you mean `min_age`?",
        ),
    ] {
        let found = problems(&format!("{text}{SINK}"));
        assert_eq!(found, [format!("sinks.toml:{expected}")], "{text}");
    }
    for listen in ["8269", "localhost:8269", "127.0.0.1", "127.0.0.1:99999"] {
        let found = problems(&format!("[http]\nlisten = \"{listen}\"\n{SINK}"));
        let expected = "sinks.toml:4:1: http.listen: an IP address and a port, such as \
                        127.0.0.1:8269 or [::1]:8269";
        assert_eq!(found, [expected]);
    }
    let found = problems(&format!("[worker]\nroles = [\"sink\"]\n{SINK}"));
    assert_eq!(
        found,
        ["sinks.toml:4:10: worker.roles: expected one of `sinks`, `retention`, `http`"]
    );
}

#[test]
fn a_kinds_own_problems_get_the_lines_of_their_keys() {
    let found =
        problems("[sinks.a.carrier]\naddress = \"\"\n[sinks.a.carrier.tls]\npin = \"1234\"\n");
    assert_eq!(
        found,
        [
            "sinks.toml:4:1: sinks.a.carrier.address: an address is never empty",
            "sinks.toml:6:1: sinks.a.carrier.tls.pin: a pin has at most 3 digits",
        ]
    );
}

#[test]
fn a_sink_has_exactly_one_destination() {
    let found = problems(&format!("{SINK}[sinks.a.other]\n[sinks.b]\n"));
    assert_eq!(
        found,
        [
            "sinks.toml:5:10: sinks.a.other: a sink has one destination, this one has carrier and other: make a sink of each",
            "sinks.toml:6:8: sinks.b: no destination: add a table [sinks.b.KIND], where KIND is one of carrier, other",
        ]
    );
    assert_eq!(
        problems(""),
        ["sinks.toml: sinks: no sink: add a table [sinks.NAME]"]
    );
    let found = problems("[sinks]\na = 5\n[sinks.b.other]\n");
    assert_eq!(
        found,
        ["sinks.toml:4:1: sinks.a: expected a table, found integer"]
    );
    let found = problems("[sinks.b]\nother = 5\n");
    assert_eq!(
        found,
        ["sinks.toml:4:9: sinks.b.other: expected struct Tls, found integer"]
    );
}

#[test]
fn a_missing_setting_is_named_at_its_table() {
    let found = problems("[sinks.a.carrier]\nport = 5\n");
    assert_eq!(found, ["sinks.toml:3:10: sinks.a.carrier.address: missing"]);
    let error = parse(SINK).unwrap_err().to_string();
    assert!(
        error.starts_with("sinks.toml: database.url: missing; write url = "),
        "{error}"
    );
}

#[test]
fn a_kind_left_out_of_the_build_is_no_typo() {
    let found = problems("[sinks.a.kafka]\nbrokers = \"x\"\n[sinks.b.stdout]\n");
    assert_eq!(
        found,
        [
            "sinks.toml:3:10: sinks.a.kafka: this program has no sink of kind kafka: use a build with the cargo feature kafka, or remove this table",
            "sinks.toml:5:10: sinks.b.stdout: this program has no sink of kind stdout: use a build with the cargo feature file, or remove this table"
        ]
    );
}

#[test]
fn no_message_repeats_a_value() {
    // H38
    for text in [
        "[sinks.a.carrier]\naddress = 5\ntoken = [\"hunter2\"]\nport = \"hunter2\"\nmode = \"hunter2\"",
        "[sinks.a.carrier]\naddress = { hunter2 = \"hunter2\" }",
        "[sinks.a]\nretry = \"hunter2\"\nevents = [\"hunter2\"]\ndelivery_timeout = \"hunter2\"\nstart = \"hunter2\"\nbatch = { max_bytes = \"hunter2\", max_events = \"hunter2\" }",
        "[log]\nfilter = \"hunter2=hunter2=\"\nformat = \"hunter2\"",
        "[sinks.a.carrier]\naddress = \"x\"\nroutes = [\"a\", \"{hunter2\", \"hunter2\"]",
        "[sinks.a.carrier]\ntoken = 'hunter2",
        "[sinks.a.carrier]\ntoken = hunter2",
        "[sinks.a.carrier]\naddress = \"x\"\ntls = { pin = \"hunter2\" }",
    ] {
        let found = problems(text).join("\n");
        assert!(!found.contains("hunter2"), "{text}\n{found}");
    }
    let url = "[database]\nurl = \"mysql://u:hunter2@h\"\n";
    let error = parse(&format!("{url}{SINK}")).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

#[test]
fn a_command_that_delivers_nothing_needs_no_sinks_variables() {
    let text = format!("{DATABASE}[sinks.b.carrier]\naddress = \"${{MISSING}}\"\n{SINK}");
    let none = Environment::fixed([]);
    let config = DatabaseConfig::parse("sinks.toml", &text, &registry(), &none).unwrap();
    assert_eq!(config.sinks, ["a", "b"]);
    assert!(parse(&text).is_err());
    let wrong = format!("{text}[databse]\n");
    assert!(DatabaseConfig::parse("f", &wrong, &registry(), &none).is_err());
}
