//! To S3: objects of as many bytes as the sink's own, put by the SDK one after the other.

use anyhow::{Context as _, Result};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Builder, Credentials, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, StalledStreamProtectionConfig,
};
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use clap::Args;
use tokio::time::Instant;

use super::message;
use super::protocol;
use super::rows::Source;

/// The payload bytes of an object, and its events at most: the sink's own defaults.
const OBJECT_BYTES: usize = 64 * 1024 * 1024;
const OBJECT_EVENTS: usize = 250_000;

/// Where objects go.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// The store's URL.
    #[arg(long)]
    endpoint: String,
    /// The bucket.
    #[arg(long)]
    bucket: String,
    /// The access key.
    #[arg(long)]
    access_key: String,
    /// What goes with it.
    #[arg(long)]
    secret_key: String,
}

/// Puts what is in memory.
///
/// # Errors
/// If anything is not stored.
pub(super) async fn produce(source: &Source, target: &Target) -> Result<()> {
    let mut object = Object::default();
    let mut objects = Vec::new();
    for message in message::all(source).await? {
        objects.extend(object.push(&message.body));
    }
    objects.push(object.lines);
    let mut store = Store::open(target);
    protocol::ready()?;
    let start = Instant::now();
    for object in objects {
        store.put(object).await?;
    }
    protocol::done(start.elapsed())
}

/// Reads pages and puts an object whenever one is full.
///
/// # Errors
/// If anything is not stored.
pub(super) async fn relay(source: &Source, target: &Target) -> Result<()> {
    let start = Instant::now();
    let mut store = Store::open(target);
    let mut pages = source.pages().await?;
    let mut object = Object::default();
    let mut line = Vec::new();
    loop {
        let rows = pages.next().await?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            line.clear();
            message::render(row, &mut line)?;
            if let Some(full) = object.push(&line) {
                store.put(full).await?;
            }
        }
    }
    store.put(object.lines).await?;
    protocol::done(start.elapsed())
}

/// An object in the making.
#[derive(Default)]
struct Object {
    lines: Vec<u8>,
    events: usize,
}

impl Object {
    /// Adds a line. If it would be too much, the object up to here is full and comes back.
    fn push(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let full = self.events == OBJECT_EVENTS || self.lines.len() + line.len() > OBJECT_BYTES;
        let full = full.then(|| std::mem::take(self).lines);
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
        self.events += 1;
        full
    }
}

struct Store {
    client: Client,
    bucket: String,
    puts: u32,
}

impl Store {
    fn open(target: &Target) -> Self {
        let key = Credentials::new(
            &target.access_key,
            &target.secret_key,
            None,
            None,
            "benchmark",
        );
        let http = aws_smithy_http_client::Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .build_https();
        let config = Builder::new()
            .behavior_version(BehaviorVersion::latest())
            .http_client(http)
            .endpoint_url(&target.endpoint)
            .force_path_style(true)
            .region(Region::new("us-east-1"))
            .credentials_provider(key)
            .retry_config(RetryConfig::disabled())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            .build();
        Self {
            client: Client::from_conf(config),
            bucket: target.bucket.clone(),
            puts: 0,
        }
    }

    async fn put(&mut self, lines: Vec<u8>) -> Result<()> {
        self.puts += 1;
        self.client
            .put_object()
            .bucket(&self.bucket)
            .key(format!("{:08}.ndjson", self.puts))
            .content_type("application/x-ndjson")
            .body(ByteStream::from(lines))
            .send()
            .await
            .context("put an object")?;
        Ok(())
    }
}
