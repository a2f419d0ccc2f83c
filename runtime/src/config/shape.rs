//! Which keys a settings type knows, read off its `Deserialize` implementation.
//!
//! A derived implementation tells the deserializer the names of its fields. This
//! one has no data: it notes the names and looks into each field in turn. So the
//! nearest known key, strictness in a table of somebody else's type, and the test
//! that every key is documented all follow from the types themselves.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

/// What may stand at one place of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A value, or a table with keys that nobody here knows.
    Value,
    /// A table with these keys.
    Table(BTreeMap<String, Self>),
    /// A list of such things.
    List(Box<Self>),
    /// A table whose keys are names that the operator chooses.
    Named(Box<Self>),
}

impl Shape {
    /// The shape of a settings type.
    #[must_use]
    pub fn of<'de, T: Deserialize<'de>>() -> Self {
        let mut root = Node::default();
        // Each pass ends at the first place not yet seen; a type nobody can write
        // down in this many keys is cut off rather than looped over.
        for _ in 0..10_000 {
            let tracer = Tracer {
                node: &mut root,
                depth: 0,
            };
            if T::deserialize(tracer).is_ok() || root.done {
                break;
            }
        }
        root.into()
    }

    /// The keys of a table; none for anything else.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &Self)> {
        let table = match self {
            Self::Table(keys) => Some(keys),
            Self::Value | Self::List(_) | Self::Named(_) => None,
        };
        table
            .into_iter()
            .flatten()
            .map(|(key, shape)| (key.as_str(), shape))
    }
}

#[derive(Default)]
struct Node {
    done: bool,
    fields: Option<Vec<(&'static str, Self)>>,
    element: Option<Box<Self>>,
}

impl From<Node> for Shape {
    fn from(node: Node) -> Self {
        if let Some(fields) = node.fields {
            let keys = fields
                .into_iter()
                .map(|(name, node)| (name.to_owned(), node.into()));
            return Self::Table(keys.collect());
        }
        match node.element {
            Some(element) => Self::List(Box::new((*element).into())),
            None => Self::Value,
        }
    }
}

/// Deeper than any settings are nested: the end of a type that holds itself.
const MAX_DEPTH: usize = 16;

struct Tracer<'a> {
    node: &'a mut Node,
    depth: usize,
}

impl<'a> Tracer<'a> {
    fn child<'b>(node: &'b mut Node, depth: usize) -> Tracer<'b>
    where
        'a: 'b,
    {
        Tracer {
            node,
            depth: depth + 1,
        }
    }
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Stop;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Stop> {
        self.node.done = true;
        Err(Stop)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let element = self.node.element.get_or_insert_default();
        let result = visitor.visit_seq(Element(Tracer::child(element, self.depth)));
        self.node.done = self.node.element.as_ref().is_none_or(|node| node.done);
        result
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        // `$__…` are the private names by which toml recognises its own types.
        if name.starts_with('$') || self.depth >= MAX_DEPTH {
            return self.deserialize_any(visitor);
        }
        let fresh = || fields.iter().map(|name| (*name, Node::default())).collect();
        let nodes = self.node.fields.get_or_insert_with(fresh);
        let result = visitor.visit_map(Fields {
            unseen: nodes.iter_mut(),
            current: None,
            depth: self.depth,
        });
        self.node.done = nodes.iter().all(|(_, node)| node.done);
        result
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct tuple tuple_struct map enum identifier ignored_any
    }
}

struct Fields<'a> {
    unseen: std::slice::IterMut<'a, (&'static str, Node)>,
    current: Option<&'a mut Node>,
    depth: usize,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Stop;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Stop> {
        let Some((name, node)) = self.unseen.find(|(_, node)| !node.done) else {
            return Ok(None);
        };
        self.current = Some(node);
        let name: StrDeserializer<'_, Stop> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stop> {
        let node = self.current.take().ok_or(Stop)?;
        let result = seed.deserialize(Tracer::child(node, self.depth));
        // A field that looked at nothing will look at nothing next time either.
        node.done |= node.fields.is_none() && node.element.is_none();
        result
    }
}

struct Element<'a>(Tracer<'a>);

impl<'de> SeqAccess<'de> for Element<'_> {
    type Error = Stop;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Stop> {
        if self.0.node.done {
            return Ok(None);
        }
        let result = seed.deserialize(Tracer::child(self.0.node, self.0.depth));
        self.0.node.done |= self.0.node.fields.is_none() && self.0.node.element.is_none();
        result.map(Some)
    }
}

/// Ends a pass.
#[derive(Debug)]
struct Stop;

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the shape has no data")
    }
}

impl std::error::Error for Stop {}

impl serde::de::Error for Stop {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is looked at")]
    struct Outer {
        plain: u32,
        #[serde(default)]
        inner: Option<Inner>,
        #[serde(default)]
        list: Vec<Inner>,
        paths: Vec<PathBuf>,
        free: BTreeMap<String, String>,
        kind: Kind,
        last: Option<bool>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its shape is looked at")]
    struct Inner {
        #[serde(with = "humantime_serde")]
        wait: Duration,
        #[serde(rename = "type")]
        kind: String,
        again: Option<Box<Self>>,
    }

    #[derive(Deserialize)]
    enum Kind {}

    #[test]
    fn every_key_of_every_nested_struct_is_found() {
        let shape = Shape::of::<Outer>();
        let keys: Vec<_> = shape.keys().map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            ["free", "inner", "kind", "last", "list", "paths", "plain"]
        );
        let of = |key| shape.keys().find(|(k, _)| *k == key).unwrap().1;
        let inner: Vec<_> = of("inner").keys().map(|(key, _)| key).collect();
        assert_eq!(inner, ["again", "type", "wait"]);
        let Shape::List(element) = of("list") else {
            panic!("a list");
        };
        assert_eq!(element.keys().count(), 3);
        assert_eq!(of("paths"), &Shape::List(Box::new(Shape::Value)));
        for value in ["free", "kind", "last", "plain"] {
            assert_eq!(of(value), &Shape::Value, "{value}");
        }
    }
}
