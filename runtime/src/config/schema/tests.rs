//! The schema against the reader: what the one takes, the other must not call wrong, and
//! what the reader refuses the schema refuses where it can.

use std::time::Duration;

use jsonschema::Validator;
use outbox_sinks::settings::{Period, Size};
use outbox_sinks::{Template, schemars};
use proptest::prelude::*;
use serde::de::DeserializeOwned;

use super::super::{Config, Environment, Problems, REFERENCE, reference};
use super::*;

fn validator(registry: &Registry) -> Validator {
    let schema = schema(registry);
    jsonschema::meta::validate(&schema).unwrap_or_else(|error| panic!("{error}"));
    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{error}"))
}

fn json(text: &str) -> Value {
    toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Where and why a text is wrong by the schema: `/sinks/a/batch: …`.
fn errors(validator: &Validator, instance: &Value) -> Vec<(String, String)> {
    let errors = validator.iter_errors(instance);
    errors
        .map(|error| (error.instance_path().to_string(), error.to_string()))
        .collect()
}

/// What the reader says and no schema can: it depends on other keys, on the environment, on
/// what a number with a unit comes to, or on code.
const BEYOND: [&str; 8] = [
    "the environment variable",
    "must be between 1s and",
    "must be between 0s and",
    "must be between 1KiB and",
    "must not be longer than",
    "no such directive",
    "is never empty",
    "a pin has at most",
];

/// Asserts that the schema finds what the reader found: at the same key, or at the table
/// in which the key is unknown, missing or one too many.
pub(in super::super) fn refuses_alike(registry: &Registry, text: &str, problems: &Problems) {
    let Ok(instance) = toml::from_str::<Value>(text) else {
        return;
    };
    let found = errors(&validator(registry), &instance);
    let problems = problems
        .iter()
        .filter(|problem| !BEYOND.iter().any(|beyond| problem.message.contains(beyond)));
    for problem in problems {
        let path = format!("/{}", problem.key.replace('.', "/"));
        let table = path.rsplit_once('/').map_or("", |(table, _)| table);
        let seen = found
            .iter()
            .any(|(at, _)| *at == path || *at == table || at.starts_with(&format!("{path}/")));
        assert!(
            seen,
            "{problem:?} in\n{text}\nbut the schema only finds {found:?}"
        );
    }
}

/// The reference with every key in it, without the tables of kinds that are not built in.
fn everything() -> Value {
    let mut whole = json(&reference::everything());
    let known: Vec<_> = Registry::builtin().names().collect();
    let sinks = whole["sinks"].as_object_mut().unwrap();
    sinks.retain(|_, sink| known.iter().any(|kind| sink.get(kind).is_some()));
    whole
}

fn without(mut instance: Value, table: &str, key: &str) -> Value {
    instance[table].as_object_mut().unwrap().remove(key);
    instance
}

#[test]
fn the_reference_is_valid_as_it_is_and_with_everything_in_it() {
    let validator = validator(&Registry::builtin());
    if cfg!(feature = "file") {
        assert_eq!(errors(&validator, &json(REFERENCE)), []);
        let either = [("url", "url_file"), ("url_file", "url")];
        for (kept, dropped) in either {
            let instance = without(everything(), "database", dropped);
            assert_eq!(errors(&validator, &instance), [], "with {kept}");
        }
    }
    let both = errors(&validator, &everything());
    assert!(both.iter().any(|(at, _)| at == "/database"), "{both:?}");
}

#[test]
fn a_kind_that_is_not_built_in_is_an_unknown_key() {
    let none = validator(&Registry::empty());
    let found = errors(
        &none,
        &json("[database]\nurl = \"${X}\"\n[sinks.a.nowhere]\n"),
    );
    let found: Vec<_> = found.iter().map(|(at, _)| at.as_str()).collect();
    assert_eq!(
        found,
        ["/sinks/a", "/sinks/a"],
        "no destination, and an unknown key"
    );
}

/// Settings that hold themselves: they can't be written out where they are used.
#[derive(Clone, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only read")]
struct Route {
    to: Option<Template>,
    #[serde(default, rename = "else")]
    otherwise: Vec<Self>,
}

#[test]
fn a_kind_of_ones_own_is_described_even_if_its_settings_hold_themselves() {
    let registry = Registry::empty().function("route", |_: Route, _| async {
        Ok(outbox_sinks::Delivery::All)
    });
    let validator = validator(&registry);
    let base = "[database]\nurl = \"${X}\"\n[sinks.a.route]\nto = \"{type}\"\n";
    let deep = format!("{base}[[sinks.a.route.else]]\n[[sinks.a.route.else.else]]\n");
    for (last, at) in [
        ("to = \"{id}${Y}\"", None),
        ("to = \"{di}\"", Some("/sinks/a/route/else/0/else/0/to")),
        ("ot = \"\"", Some("/sinks/a/route/else/0/else/0")),
    ] {
        let text = format!("{deep}{last}\n");
        let found = errors(&validator, &json(&text));
        let found: Vec<_> = found.iter().map(|(at, _)| at.as_str()).collect();
        assert_eq!(found, Vec::from_iter(at), "{text}");
        let environment = Environment::fixed([("X", "postgres://h/d"), ("Y", "")]);
        let read = Config::parse("f", &text, &registry, &environment);
        assert_eq!(read.is_ok(), at.is_none(), "{read:?}");
    }
}

/// Calls `visit` with every value of a file and whether it is a text.
fn each_text(value: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| each_text(value, visit)),
        Value::Object(table) => table.values_mut().for_each(|value| each_text(value, visit)),
        Value::String(_) => visit(value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn any_text_may_hold_a_variable() {
    let validator = validator(&Registry::builtin());
    for variable in ["${NAME}", "${NAME:-}", "before ${A}${B:-{c} after"] {
        let mut instance = without(everything(), "database", "url_file");
        each_text(&mut instance, &mut |text| *text = variable.into());
        let found: Vec<_> = errors(&validator, &instance);
        let expected = if cfg!(feature = "file") {
            vec![]
        } else {
            found.clone()
        };
        assert_eq!(found, expected);
    }
    let mut instance = without(everything(), "database", "url_file");
    let mut texts = 0;
    each_text(&mut instance, &mut |text| {
        *text = "{ no } variable".into();
        texts += 1;
    });
    assert!(texts > 15, "{texts}");
    let found = errors(&validator, &instance);
    assert!(found.len() > 10, "that none may be anything: {found:?}");
}

/// The keys that a schema and a shape differ in.
fn differences(schema: &Value, shape: &Shape, at: &str, found: &mut Vec<String>) {
    let none = Map::new();
    match shape {
        Shape::Table(_) => {
            let described = schema["properties"].as_object().unwrap_or(&none);
            let read: Vec<_> = shape.keys().map(|(key, _)| key).collect();
            let only_described = described.keys().filter(|key| !read.contains(&key.as_str()));
            found.extend(only_described.map(|key| format!("{at}.{key} is not read")));
            for (key, below) in shape.keys() {
                let here = format!("{at}.{key}");
                match described.get(key) {
                    Some(schema) => differences(schema, below, &here, found),
                    None => found.push(format!("{here} is not described")),
                }
            }
        }
        Shape::List(element) => differences(&schema["items"], element, at, found),
        Shape::Named(element) => {
            differences(&schema["additionalProperties"], element, at, found);
        }
        // Only a table of the operator's own keys, such as librdkafka's options.
        Shape::Value if schema.get("properties").is_some() => {
            found.push(format!("{at} has keys that are not read"));
        }
        Shape::Value => {}
    }
}

#[test]
fn the_schema_describes_exactly_the_keys_that_are_read() {
    let mut found = Vec::new();
    let plain = |schema: fn(&mut SchemaGenerator) -> outbox_sinks::schemars::Schema| {
        let settings = SchemaSettings::draft2020_12();
        let settings = settings.with(|settings| settings.inline_subschemas = true);
        let mut schema = schema(&mut settings.into_generator()).to_value();
        tidy::tidy(&mut schema);
        schema
    };
    for section in SECTIONS {
        let (schema, shape) = (plain(section.schema), (section.shape)());
        differences(&schema, &shape, section.name, &mut found);
    }
    let (sink, shape) = (plain(Sink::json_schema), Shape::of::<Sink>());
    differences(&sink, &shape, "sinks.NAME", &mut found);
    for (name, kind) in Registry::builtin().kinds() {
        differences(&plain(kind.schema), &(kind.shape)(), name, &mut found);
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn every_key_says_what_it_is_for_and_every_table_is_closed() {
    fn look(schema: &Value, at: &str, found: &mut Vec<String>) {
        let named = schema["properties"].as_object().into_iter().flatten();
        let named = named.map(|(key, below)| (key.as_str(), below));
        let any = Some(("*", &schema["additionalProperties"]));
        for (key, below) in named.chain(any.filter(|(_, any)| any.is_object())) {
            let here = format!("{at}.{key}");
            let said = below["description"].as_str().unwrap_or_default();
            let whole = said.ends_with(['.', ')']) && said.len() > 10;
            if !whole {
                found.push(format!("{here}: {said:?}"));
            }
            if below.get("properties").is_some() && below["additionalProperties"] != false {
                found.push(format!("{here} is open"));
            }
            look(below, &here, found);
        }
    }
    let mut found = Vec::new();
    look(&schema(&Registry::builtin()), "", &mut found);
    assert_eq!(found, [""; 0]);
}

#[test]
fn the_limits_of_numbers_are_those_of_the_reader() {
    let judge = |table: &str, key: &str, value: i64| {
        let database = "[database]\nurl = \"postgres://h/d\"\n";
        let table = match table {
            "database" => format!("{database}{key} = {value}\n[sinks.a]\n"),
            _ => format!("{database}[sinks.a.{table}]\n{key} = {value}\n"),
        };
        let parsed = Config::parse("f", &table, &Registry::empty(), &Environment::fixed([]));
        let problems = parsed.unwrap_err();
        !problems.iter().any(|problem| problem.key.ends_with(key))
    };
    let whole = schema(&Registry::empty());
    let sink = &whole["properties"]["sinks"]["additionalProperties"]["properties"];
    let mut compared = 0;
    for (name, table) in [
        ("database", &whole["properties"]["database"]),
        ("batch", &sink["batch"]),
        ("poison", &sink["poison"]),
    ] {
        for (key, property) in table["properties"].as_object().unwrap() {
            let (least, most) = (property["minimum"].as_i64(), property["maximum"].as_i64());
            let (Some(least), Some(most)) = (least, most) else {
                continue;
            };
            for (value, legal) in [
                (least - 1, false),
                (least, true),
                (most, true),
                (most + 1, false),
            ] {
                assert_eq!(judge(name, key, value), legal, "{name}.{key} = {value}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 4);
}

/// The part of a type's schema that a text is held to.
fn of<T: JsonSchema>() -> Validator {
    let schema = T::json_schema(&mut SchemaGenerator::default()).to_value();
    jsonschema::validator_for(&schema).unwrap()
}

fn reads<T: DeserializeOwned>(text: &str) -> bool {
    serde_json::from_value::<T>(text.into()).is_ok()
}

/// Whether the schema says of a text what the reader says.
fn agrees<T: DeserializeOwned + JsonSchema>(texts: &[(&str, bool)]) {
    let schema = of::<T>();
    for (text, legal) in texts {
        assert_eq!(reads::<T>(text), *legal, "read {text:?}");
        assert_eq!(
            schema.is_valid(&(*text).into()),
            *legal,
            "schema of {text:?}"
        );
    }
}

#[test]
fn durations_sizes_and_templates_are_described_as_they_are_read() {
    let durations = [
        "0", "0s", "250ms", "5m", "1h 30m", "1h30m", " 2 days ", "1.5s", "10us", "1µs", "1M 2y",
        "3wks", "7 weeks", "1nsec",
    ];
    agrees::<Period>(&durations.map(|text| (text, true)));
    agrees::<Period>(&["", "5", "m", "-1s", "1 fortnight", "5 M s"].map(|text| (text, false)));
    let sizes = [
        "0", "64", "+5", "64KiB", "1MB", "4 gib", "1.5k", "7B", "2e", "9Ei",
    ];
    agrees::<Size>(&sizes.map(|text| (text, true)));
    agrees::<Size>(&["", "KiB", "-1", "64KiBs", "1XB"].map(|text| (text, false)));
    let templates = ["", "a", "{id}", "{{a}}", "x{tenantId:-{}y", "{type:-}{seq}"];
    agrees::<Template>(&templates.map(|text| (text, true)));
    agrees::<Template>(&["{", "}", "{aera}", "{}", "{{id}", "{id}}"].map(|text| (text, false)));
}

proptest! {
    #[test]
    fn no_legal_value_is_called_wrong(
        period in "[ 0-9]{0,3}(\\.[0-9]{1,2})?[a-zµM]{0,4}[ 0-9]{0,2}(s|ms)?",
        size in "[+0-9.]{1,4}[ ]?[a-zA-Z]{0,3}",
        template in "([a-z]|\\{(id|seq|x)?(:-)?[a-z{]?\\}|[{}]){0,6}",
        seconds: u32,
    ) {
        prop_assert!(!reads::<Period>(&period) || of::<Period>().is_valid(&period.as_str().into()), "{}", period);
        prop_assert!(!reads::<Size>(&size) || of::<Size>().is_valid(&size.as_str().into()), "{}", size);
        let legal = of::<Template>().is_valid(&template.as_str().into());
        prop_assert_eq!(reads::<Template>(&template), legal, "{}", template);
        let shown = Period::from(Duration::from_secs(seconds.into()));
        let shown = serde_json::to_value(shown).unwrap();
        prop_assert!(of::<Period>().is_valid(&shown), "{}", shown);
    }
}
