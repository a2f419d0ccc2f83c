//! An event as a command that adds it to its stream, or the reason why it can never be sent.
//!
//! Every entry has the fields `id`, `type`, `sequence` and `data`, so that a reader can drop
//! repetitions and compare order without looking into the body. Redis takes any bytes, so the JSON
//! text goes out as it is (OB-9).

use outbox_sinks::{Event, Refusal};
use redis::Cmd;

use crate::config::Config;

/// A command, and the stream it adds to.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) stream: String,
    pub(crate) command: Cmd,
}

impl Entry {
    /// The entry of an event.
    ///
    /// # Errors
    /// `MISSING_FIELD`, `ILLEGAL_STREAM` or `MALFORMED_PAYLOAD`: known without asking Redis.
    pub(crate) fn of(event: &Event, config: &Config) -> Result<Self, Refusal> {
        let stream = config.stream.render(event)?;
        if stream.is_empty() {
            return Err(Refusal::new(
                "ILLEGAL_STREAM",
                "the stream's name comes out empty",
            ));
        }
        let mut data = Vec::with_capacity(event.payload().len() + 128);
        config.encoder.encode(event, &mut data)?;
        let mut command = redis::cmd("XADD");
        command.arg(&stream);
        if let Some(max_len) = config.max_len {
            command.arg("MAXLEN").arg("~").arg(max_len.get());
        }
        // The asterisk lets Redis choose the entry's id, which then grows within the stream.
        command.arg("*");
        command.arg("id").arg(event.id());
        command.arg("type").arg(event.event_type());
        command.arg("sequence").arg(event.position().to_string());
        if !event.subject().is_empty() {
            command.arg("subject").arg(event.subject());
        }
        if let Some((name, value)) = outbox_sinks::Encoder::replay_header(event) {
            command.arg(name).arg(value);
        }
        for (name, value) in config.encoder.attributes(event) {
            command.arg(format!("ce-{name}")).arg(value);
        }
        command.arg("data").arg(data);
        Ok(Self { stream, command })
    }
}

#[cfg(test)]
mod tests {
    use outbox_sinks::Position;

    use super::*;

    fn entry(settings: &str, payload: &str) -> Result<Entry, Refusal> {
        let settings = format!(r#"{{"url":"redis://h"{settings}}}"#);
        let config = Config::check(serde_json::from_str(&settings).unwrap()).unwrap();
        let event = Event::new(Position::new(7, 8), "node.up", payload.to_owned());
        Entry::of(&event.as_replay(2), &config)
    }

    fn words(entry: &Entry) -> Vec<String> {
        let text = |arg: redis::Arg<&[u8]>| {
            let redis::Arg::Simple(bytes) = arg else {
                panic!("only plain arguments are sent")
            };
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        entry.command.args_iter().map(text).collect()
    }

    #[test]
    fn an_entry_has_its_fields_and_the_digits_as_they_were_written() {
        let payload = r#"{"id":"e","type":"node.up","subject":"node/7","data":1.10}"#;
        let entry = entry(r#","max_len":50"#, payload).unwrap();
        assert_eq!(
            words(&entry).join("|"),
            "XADD|events.node|MAXLEN|~|50|*|id|e|type|node.up|sequence|7.8|subject|node/7|outbox-replay|2|data|\
             {\"id\":\"e\",\"type\":\"node.up\",\"subject\":\"node/7\",\"data\":1.10,\"sequence\":\"7.8\",\"replay\":2}"
        );
    }

    #[test]
    fn in_binary_mode_the_attributes_are_fields() {
        let payload = r#"{"id":"e","type":"node.up","data":1.10}"#;
        let words = words(&entry(r#","format":"cloudevents-binary""#, payload).unwrap());
        let pair = |name: &str, value: &str| words.windows(2).any(|two| two == [name, value]);
        assert!(pair("ce-id", "e") && pair("ce-specversion", "1.0") && pair("ce-replay", "2"));
        assert!(pair("data", "1.10"), "{words:?}");
    }

    #[test]
    fn what_can_never_be_sent_is_known_beforehand() {
        let good = r#"{"id":"e","type":"a.b"}"#;
        for (settings, payload, code) in [
            (r#","stream":"{tenantId}""#, good, "MISSING_FIELD"),
            (r#","stream":"{tenantId:-}""#, good, "ILLEGAL_STREAM"),
            (r#","stream":"x""#, "[1]", "MALFORMED_PAYLOAD"),
        ] {
            assert_eq!(entry(settings, payload).unwrap_err().code(), code);
        }
    }
}
