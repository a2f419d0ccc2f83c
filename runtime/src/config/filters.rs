//! The filters of the sinks, for a command that asks what a sink would take and opens
//! none of them. Nothing is judged here and no variable is needed: a filter that can't be
//! read without them is left out, and not taken for one that takes everything.

use std::collections::BTreeMap;

use outbox::Filter;

use super::document::Document;
use super::key::Key;

/// The filters that can be read, by the sinks' names.
pub(super) fn filters(document: &Document<'_>, sinks: &[String]) -> BTreeMap<String, Filter> {
    let filters = sinks
        .iter()
        .filter_map(|sink| Some((sink.clone(), filter(document, &Key::of(["sinks", sink]))?)));
    filters.collect()
}

fn filter(document: &Document<'_>, sink: &Key) -> Option<Filter> {
    document.get(sink)?.get_ref().as_table()?;
    let types = texts(document, &sink.child("events"))?;
    Some(Filter {
        types: types
            .iter()
            .map(|text| text.parse().ok())
            .collect::<Option<_>>()?,
        tenants: texts(document, &sink.child("tenants"))?,
    })
}

/// A list of texts, all of which mean what they say; empty if there is none.
fn texts(document: &Document<'_>, key: &Key) -> Option<Vec<String>> {
    let Some(list) = document.get(key) else {
        return Some(Vec::new());
    };
    let texts = list.get_ref().as_array()?.iter().map(|text| {
        let text = text.get_ref().as_str()?;
        (!text.contains("${")).then(|| text.to_owned())
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_can_not_be_read_is_not_one_that_takes_everything() {
        let text = r#"
            [sinks.all.file]
            path = "${PATH_OF_IT}"
            [sinks.some]
            events = ["order.*"]
            tenants = ["t1"]
            [sinks.told-elsewhere]
            tenants = ["${TENANT}"]
            [sinks.wrong]
            events = ["not a pattern"]
        "#;
        let document = Document::parse("sinks.toml", text).unwrap();
        let sinks = ["all", "some", "told-elsewhere", "wrong"].map(str::to_owned);
        let found = filters(&document, &sinks);
        let some = Filter {
            types: vec!["order.*".parse().unwrap()],
            tenants: vec!["t1".to_owned()],
        };
        let expected = [("all", Filter::default()), ("some", some)];
        assert_eq!(
            found,
            expected.map(|(sink, it)| (sink.to_owned(), it)).into()
        );
    }
}
