//! The bytes of an object: one event a line, compressed.
//!
//! They are a pure function of the events (OB-8): fixed compression levels, one
//! thread, no time stamp in the gzip header. What identifies the content is the SHA-256
//! of the lines *before* compression, so that a newer version of a compressor, which
//! may write the same lines in other bytes, does not make it another content.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Batch, Encoder, Refusal};

/// Rather small and quick; the same for ever, or the same events would get other bytes.
const ZSTD_LEVEL: i32 = 3;
const GZIP_LEVEL: u32 = 6;

/// How objects are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Compression {
    /// Zstandard: about as small as gzip at a fraction of the time.
    #[default]
    Zstd,
    /// For readers that know nothing else.
    Gzip,
    /// Plain text.
    None,
}

impl Compression {
    /// The extension of an object's name.
    pub(super) const fn extension(self) -> &'static str {
        match self {
            Self::Zstd => "ndjson.zst",
            Self::Gzip => "ndjson.gz",
            Self::None => "ndjson",
        }
    }

    /// The media type. Not a `Content-Encoding`: HTTP clients would undo that, and
    /// the name would no longer tell what was fetched.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Zstd => "application/zstd",
            Self::Gzip => "application/gzip",
            Self::None => "application/x-ndjson",
        }
    }
}

/// An object's bytes, and what the manifest says of them.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// Of the lines before compression, in hexadecimal.
    pub(super) sha256: String,
    /// Number of lines.
    pub(super) events: usize,
    /// Length of the lines before compression.
    pub(super) uncompressed_bytes: u64,
}

/// What packing some events came to.
#[derive(Debug)]
pub(super) struct Packed {
    /// `None` if no event could be encoded.
    pub(super) body: Option<Body>,
    /// The events that can't be, by their index in the batch.
    pub(super) refused: Vec<(usize, Refusal)>,
}

/// Writes the events at `indices` of the batch. Takes a while: for a thread that may block.
pub(super) fn pack(
    encoder: &Encoder,
    compression: Compression,
    batch: &Batch,
    indices: &[usize],
) -> io::Result<Packed> {
    let mut writer = Compressor::new(compression)?;
    let mut hash = Sha256::new();
    let mut line = Vec::new();
    let (mut events, mut uncompressed_bytes) = (0, 0);
    let mut refused = Vec::new();
    for &index in indices {
        let Some(event) = batch.get(index) else {
            continue;
        };
        line.clear();
        if let Err(refusal) = encoder.encode(event, &mut line) {
            refused.push((index, refusal));
            continue;
        }
        one_line(&mut line);
        line.push(b'\n');
        hash.update(&line);
        writer.write_all(&line)?;
        events += 1;
        uncompressed_bytes += line.len() as u64;
    }
    let body = (events > 0)
        .then(|| {
            Ok::<_, io::Error>(Body {
                bytes: writer.finish()?,
                sha256: hex(&hash.finalize()),
                events,
                uncompressed_bytes,
            })
        })
        .transpose()?;
    Ok(Packed { body, refused })
}

/// JSON text in a `json` column may be pretty-printed. Outside strings a line end is
/// only white space, and inside strings it can't occur, so a space stands for it.
fn one_line(line: &mut [u8]) {
    for byte in line {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// The SHA-256 of some bytes, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes all");
        text
    })
}

enum Compressor {
    Zstd(zstd::Encoder<'static, Vec<u8>>),
    Gzip(GzEncoder<Vec<u8>>),
    None(Vec<u8>),
}

impl Compressor {
    fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                // Readers then notice damage, as gzip's do.
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
            Compression::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Self::Gzip(GzEncoder::new(Vec::new(), level))
            }
            Compression::None => Self::None(Vec::new()),
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::None(out) => {
                out.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Zstd(encoder) => encoder.finish(),
            Self::Gzip(encoder) => encoder.finish(),
            Self::None(out) => Ok(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use outbox::{Event, Position};
    use proptest::prelude::*;
    use std::io::Read;

    const ALL: [Compression; 3] = [Compression::Zstd, Compression::Gzip, Compression::None];

    fn batch(payloads: &[String]) -> Batch {
        let events: Vec<_> = (1..)
            .zip(payloads)
            .map(|(seq, payload)| Event::new(Position::new(1, seq), "a.b", payload.clone()))
            .collect();
        Batch::new(events).unwrap()
    }

    fn packed(compression: Compression, batch: &Batch) -> Packed {
        let encoder = Encoder::new(Format::Native, "/shop");
        let all: Vec<_> = (0..batch.len()).collect();
        pack(&encoder, compression, batch, &all).unwrap()
    }

    fn unpacked(compression: Compression, bytes: &[u8]) -> String {
        let mut text = String::new();
        match compression {
            Compression::Zstd => zstd::Decoder::new(bytes).unwrap().read_to_string(&mut text),
            Compression::Gzip => flate2::read::GzDecoder::new(bytes).read_to_string(&mut text),
            Compression::None => (&mut &*bytes).read_to_string(&mut text),
        }
        .unwrap();
        text
    }

    fn payload(n: usize) -> String {
        format!(r#"{{"id":"evt_{n}","type":"a.b","data":{{"n":1.10}}}}"#)
    }

    #[test]
    fn every_event_is_a_line_of_its_own_in_order_whatever_the_compression() {
        let batch = batch(&(0..5_000).map(payload).collect::<Vec<_>>());
        for compression in ALL {
            let body = packed(compression, &batch).body.unwrap();
            let text = unpacked(compression, &body.bytes);
            assert_eq!(text.lines().count(), 5_000);
            assert_eq!(body.events, 5_000);
            assert_eq!(body.uncompressed_bytes, text.len() as u64);
            assert_eq!(body.sha256, sha256(text.as_bytes()));
            for (n, line) in text.lines().enumerate() {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(value["id"], format!("evt_{n}"));
            }
        }
    }

    #[test]
    fn an_event_that_can_not_be_encoded_leaves_its_neighbours_alone() {
        let batch = batch(&[payload(1), "no json".to_owned(), payload(3)]);
        let packed = packed(Compression::None, &batch);
        assert_eq!(packed.body.unwrap().events, 2);
        let [(1, refusal)] = packed.refused.as_slice() else {
            panic!("the second one alone is refused");
        };
        assert_eq!(refusal.code(), "MALFORMED_PAYLOAD");
    }

    #[test]
    fn no_event_makes_no_body() {
        assert!(
            packed(Compression::Zstd, &batch(&["[]".to_owned()]))
                .body
                .is_none()
        );
    }

    #[test]
    fn a_pretty_printed_payload_is_still_one_line() {
        let pretty =
            "{\r\n  \"id\": \"e\",\n  \"type\": \"a.b\",\n \"data\": {\n\"t\": \"x\\ny\"}\n}";
        let body = packed(Compression::None, &batch(&[pretty.to_owned()]))
            .body
            .unwrap();
        let text = String::from_utf8(body.bytes).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["data"]["t"], "x\ny");
    }

    #[test]
    fn a_gzip_header_holds_no_time() {
        let body = packed(Compression::Gzip, &batch(&[payload(1)]))
            .body
            .unwrap();
        assert_eq!(body.bytes[4..8], [0; 4]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn the_same_events_give_the_same_bytes_and_the_same_refusals(
            events in prop::collection::vec(("\\PC{0,200}", prop::bool::weighted(0.9)), 1..50)
        ) {
            let payload = |(text, good): &(String, bool)| match good {
                true => serde_json::json!({"id": "e", "type": "a.b", "data": text}).to_string(),
                false => text.clone(),
            };
            let payloads: Vec<_> = events.iter().map(payload).collect();
            for compression in ALL {
                let once = packed(compression, &batch(&payloads));
                let again = packed(compression, &batch(&payloads));
                prop_assert_eq!(&once.refused, &again.refused);
                let stored = payloads.len() - once.refused.len();
                match (once.body, again.body) {
                    (Some(once), Some(again)) => {
                        prop_assert_eq!(&once.bytes, &again.bytes);
                        prop_assert_eq!(&once.sha256, &again.sha256);
                        prop_assert_eq!(unpacked(compression, &once.bytes).lines().count(), stored);
                    }
                    (None, None) => prop_assert_eq!(stored, 0),
                    (Some(_), None) | (None, Some(_)) => prop_assert!(false, "not the same"),
                }
            }
        }
    }
}
