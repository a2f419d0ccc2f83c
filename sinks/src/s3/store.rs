//! One bucket: puts an object under a name that stands for its content.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::primitives::ByteStream;

use tokio::time::sleep;

use super::classify::{Failure, classify};
use crate::SinkError;

/// The object's metadata that holds the SHA-256 of its content before compression.
const CONTENT_HASH: &str = "outbox-sha256";

/// The object's metadata that holds the number of its bytes, as they were put. Not ours to
/// compare with our own: another version of the compressor may write the same content in
/// fewer bytes.
const LENGTH: &str = "outbox-length";

/// A bucket and how it is written to.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) client: Client,
    pub(super) bucket: String,
    pub(super) conditional_put: bool,
}

/// How often an object is looked at whose metadata is not there, and the pause before the
/// next look: a store that is not Amazon's may show an object before what belongs to it.
const LOOKS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(200);

const FOREIGN: &str = "look at the object and move it away: something else writes below this sink's prefix, or \
     copied the object without its metadata";
const DAMAGED: &str =
    "look at the object and move it away: it was cut short or changed after it was stored";

/// What is to be stored.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) key: String,
    pub(super) content_type: &'static str,
    /// Of the content before compression, in hexadecimal.
    pub(super) sha256: String,
    pub(super) bytes: Vec<u8>,
}

impl Store {
    /// Stores an object. That it is there already, with the same content, is success:
    /// an earlier attempt's answer was lost, or another owner was quicker (F1, F32).
    pub(super) async fn put(&self, object: Object) -> Result<(), SinkError> {
        let Object {
            key,
            content_type,
            sha256,
            bytes,
        } = object;
        let request = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(&key)
            .content_type(content_type)
            .metadata(CONTENT_HASH, &sha256)
            .metadata(LENGTH, bytes.len().to_string())
            .set_if_none_match(self.conditional_put.then(|| "*".to_owned()))
            .body(ByteStream::from(bytes));
        let Err(error) = request.send().await else {
            return Ok(());
        };
        let action = format!("put object {}", file_name(&key));
        match classify(&action, &error) {
            Failure::Exists => self.compare(&key, &sha256).await,
            Failure::Error(error) => Err(error),
        }
    }

    /// Makes sure that what is there under this name is what we would have put, and whole.
    async fn compare(&self, key: &str, sha256: &str) -> Result<(), SinkError> {
        let name = file_name(key);
        let mut found = self.look_at(key).await?;
        for _ in 1..LOOKS {
            if found
                .metadata()
                .is_some_and(|noted| noted.contains_key(CONTENT_HASH))
            {
                break;
            }
            sleep(PAUSE).await;
            found = self.look_at(key).await?;
        }
        let noted = |name| found.metadata().and_then(|metadata| metadata.get(name));
        if noted(CONTENT_HASH).is_none_or(|noted| noted != sha256) {
            return Err(SinkError::misconfigured(
                format!("put object {name}: another object has that name, and not our content"),
                FOREIGN,
            ));
        }
        let length = found.content_length().map(|length| length.to_string());
        if noted(LENGTH) != length.as_ref() {
            return Err(SinkError::misconfigured(
                format!("put object {name}: it is there, but not with the bytes that were put"),
                DAMAGED,
            ));
        }
        Ok(())
    }

    async fn look_at(&self, key: &str) -> Result<HeadObjectOutput, SinkError> {
        let request = self.client.head_object().bucket(&self.bucket).key(key);
        let action = format!("look at object {}", file_name(key));
        let found = request.send().await;
        Ok(found.map_err(|error| classify(&action, &error))?)
    }

    /// Asks for one name below the prefix: shows whether the bucket is there and lets us
    /// in, in words, which a HEAD request could not.
    pub(super) async fn probe(&self, prefix: &str) -> Result<(), SinkError> {
        self.client
            .list_objects_v2()
            .bucket(&self.bucket)
            .prefix(prefix)
            .max_keys(1)
            .send()
            .await
            .map_err(|error| classify(&format!("list bucket `{}`", self.bucket), &error))?;
        Ok(())
    }
}

/// The key without its folders, which hold values of events.
fn file_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}
