//! From a row to what is sent: the same bytes as the relay's format `native`.

use anyhow::{Context, Result};
use outbox::Txid;
use serde::Deserialize;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::rows;

/// The fields that a message needs, borrowed from the payload.
#[derive(Debug, Deserialize)]
pub(super) struct Fields<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) event_type: &'a str,
    pub(super) subject: &'a str,
}

/// Reads a row's fields, and writes its text with `sequence` to `body`.
pub(super) fn render<'a>(row: &'a PgRow, body: &mut Vec<u8>) -> Result<Fields<'a>> {
    use std::io::Write;
    let payload = rows::payload(row)?;
    let fields = serde_json::from_str(payload).context("read a payload")?;
    let (txid, seq): (Txid, i64) = (row.try_get(0)?, row.try_get(1)?);
    let open = payload
        .strip_suffix('}')
        .context("a payload is an object")?;
    body.extend_from_slice(open.as_bytes());
    write!(body, ",\"sequence\":\"{}.{seq}\"}}", txid.0)?;
    Ok(fields)
}

/// A message that owns what it holds.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) event_type: String,
    pub(super) subject: String,
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn of(row: &PgRow) -> Result<Self> {
        let mut body = Vec::new();
        let fields = render(row, &mut body)?;
        Ok(Self {
            id: fields.id.to_owned(),
            event_type: fields.event_type.to_owned(),
            subject: fields.subject.to_owned(),
            body,
        })
    }

    pub(super) fn fields(&self) -> Fields<'_> {
        Fields {
            id: &self.id,
            event_type: &self.event_type,
            subject: &self.subject,
        }
    }
}

/// All messages of the table, in order.
pub(super) async fn all(source: &rows::Source) -> Result<Vec<Message>> {
    let mut pages = source.pages().await?;
    let mut messages = Vec::new();
    loop {
        let rows = pages.next().await?;
        if rows.is_empty() {
            return Ok(messages);
        }
        for row in &rows {
            messages.push(Message::of(row)?);
        }
    }
}
