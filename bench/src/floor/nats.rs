//! To a NATS stream: a pipeline of publishes through JetStream, with as many acknowledgements
//! outstanding as the sink's window allows. It keeps no order within a key if a publish fails.

use std::collections::VecDeque;
use std::future::IntoFuture;

use anyhow::{Context as _, Result};
use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::{ContextBuilder, PublishAckFuture};
use async_nats::jetstream::message::PublishMessage;
use clap::Args;
use tokio::time::Instant;

use super::message::{self, Message};
use super::protocol;
use super::rows::Source;

/// The sink's own default.
const WINDOW: usize = 512;

/// Where messages go.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// The server's URL.
    #[arg(long)]
    server: String,
}

/// Sends what is in memory.
///
/// # Errors
/// If anything is not delivered.
pub(super) async fn produce(source: &Source, target: &Target) -> Result<()> {
    let messages = message::all(source).await?;
    let mut pipeline = Pipeline::open(target).await?;
    protocol::ready()?;
    let start = Instant::now();
    for message in messages {
        pipeline.send(message).await?;
    }
    pipeline.finish().await?;
    protocol::done(start.elapsed())
}

/// Reads pages and sends them.
///
/// # Errors
/// If anything is not delivered.
pub(super) async fn relay(source: &Source, target: &Target) -> Result<()> {
    let start = Instant::now();
    let mut pipeline = Pipeline::open(target).await?;
    let mut pages = source.pages().await?;
    loop {
        let rows = pages.next().await?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            pipeline.send(Message::of(row)?).await?;
        }
    }
    pipeline.finish().await?;
    protocol::done(start.elapsed())
}

struct Pipeline {
    jetstream: Context,
    in_flight: VecDeque<PublishAckFuture>,
}

impl Pipeline {
    async fn open(target: &Target) -> Result<Self> {
        let client = async_nats::connect(&target.server)
            .await
            .context("connect to NATS")?;
        let jetstream = ContextBuilder::new().max_ack_inflight(WINDOW).build(client);
        Ok(Self {
            jetstream,
            in_flight: VecDeque::with_capacity(WINDOW),
        })
    }

    async fn send(&mut self, message: Message) -> Result<()> {
        if self.in_flight.len() == WINDOW {
            self.await_oldest().await?;
        }
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", message.id.as_str());
        headers.insert("content-type", "application/json");
        headers.insert("event-id", message.id.as_str());
        headers.insert("event-type", message.event_type.as_str());
        let subject = format!("events.{}", message.event_type);
        let publish = PublishMessage::build()
            .headers(headers)
            .payload(message.body.into());
        let sent = self.jetstream.send_publish(subject, publish).await?;
        self.in_flight.push_back(sent);
        Ok(())
    }

    async fn await_oldest(&mut self) -> Result<()> {
        if let Some(oldest) = self.in_flight.pop_front() {
            oldest.into_future().await?;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<()> {
        while !self.in_flight.is_empty() {
            self.await_oldest().await?;
        }
        Ok(())
    }
}
