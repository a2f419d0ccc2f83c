//! Writes a batch: its objects, several at a time, and then its manifest.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use outbox::{Event, Position};

use super::body::{self, Compression, Packed};
use super::client::Access;
use super::key::{Layout, PositionRange};
use super::manifest::{Entry, Manifest};
use super::store::{Object, Store};
use crate::{
    Batch, BatchLimits, Connector, Delivery, Encoder, Refusal, Session, Sink, SinkError, Verdict,
};

/// Enough to hide the latency of a request; few enough that what is compressed and not
/// yet stored stays small.
const CONCURRENT_UPLOADS: usize = 8;

/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

const SLOW: &str = "what was stored is not stored again; if it lasts, raise `delivery_timeout`, and for \
     later batches lower `max_bytes` or partition less";

/// A bucket to write to.
#[derive(Debug)]
pub(super) struct S3Connector {
    pub(super) access: Access,
    pub(super) bucket: String,
    pub(super) conditional_put: bool,
    pub(super) writing: Writing,
}

/// What decides names and bytes. Nothing else does (OB-8).
#[derive(Clone, Debug)]
pub(super) struct Writing {
    pub(super) sink: String,
    pub(super) encoder: Encoder,
    pub(super) compression: Compression,
    pub(super) layout: Layout,
}

impl S3Connector {
    async fn store(&self, timeout: Duration) -> Result<Store, SinkError> {
        let open = Box::pin(self.access.client(timeout));
        let client = tokio::time::timeout(timeout, open).await.map_err(|_| {
            SinkError::unavailable("ask the AWS environment for the region: timed out")
        })??;
        Ok(Store {
            client,
            bucket: self.bucket.clone(),
            conditional_put: self.conditional_put,
        })
    }
}

#[async_trait]
impl Connector for S3Connector {
    async fn probe(&self) -> Result<(), SinkError> {
        let store = self.store(PROBE_TIMEOUT).await?;
        Box::pin(store.probe(&self.writing.layout.prefix)).await
    }

    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        // Ends on its own a little before the runtime would drop the call, and says that
        // it was an outage. What the runtime drops, it would hold against the events.
        let deadline = session.delivery_timeout * 9 / 10;
        Ok(Box::new(S3Sink {
            store: self.store(deadline).await?,
            writing: Arc::new(self.writing.clone()),
            deadline,
            stored: Mutex::default(),
        }))
    }

    /// Large objects are cheap to store and to read. The number of events bounds
    /// what is kept besides the payloads, when those are tiny.
    fn batch_limits(&self) -> BatchLimits {
        BatchLimits {
            max_events: 250_000,
            max_bytes: 64 * 1024 * 1024,
            max_wait: Duration::from_secs(300),
        }
    }

    /// A batch becomes objects and a manifest with names of its range: cut differently
    /// the next time, it would be stored twice.
    fn frozen_ranges(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct S3Sink {
    store: Store,
    writing: Arc<Writing>,
    deadline: Duration,
    /// The objects of a batch that is not finished. It comes again as it is, and goes on
    /// where it was: otherwise one of very many partitions would never be done.
    stored: Mutex<HashSet<String>>,
}

#[async_trait]
impl Sink for S3Sink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let write = Box::pin(self.write(batch));
        tokio::time::timeout(self.deadline, write)
            .await
            .unwrap_or_else(|_| {
                let message = format!("write the batch: not done within {:?}", self.deadline);
                Err(SinkError::unavailable(message).with_advice(SLOW))
            })
    }
}

impl S3Sink {
    async fn write(&self, batch: &Batch) -> Result<Delivery, SinkError> {
        let range = PositionRange::of(batch);
        let groups = self.group(batch).await?;
        let mut refused = groups.refused;
        let written = self
            .upload_all(batch, range, groups.folders, &mut refused)
            .await?;
        if !written.is_empty() {
            let undeliverable = positions(batch, &refused);
            let manifest = Manifest::new(&self.writing.sink, &range, undeliverable, written);
            let json = manifest.to_json();
            let sha256 = body::sha256(&json);
            let object = Object {
                key: self.writing.layout.manifest(&range, &sha256),
                content_type: "application/json",
                sha256,
                bytes: json,
            };
            self.store.put(object).await?;
        }
        self.stored().clear();
        Ok(verdicts(batch.len(), refused))
    }

    fn stored(&self) -> MutexGuard<'_, HashSet<String>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn group(&self, batch: &Batch) -> Result<Groups, SinkError> {
        let (writing, batch) = (Arc::clone(&self.writing), batch.clone());
        let grouped = tokio::task::spawn_blocking(move || group(&writing.layout, &batch)).await;
        grouped.map_err(|error| SinkError::failed("sort events into partitions").with_source(error))
    }

    /// Uploads all folders' objects, or tells what stopped it. After a failure nothing
    /// new is begun, and what is under way is awaited: nothing is sent behind the
    /// caller's back.
    async fn upload_all(
        &self,
        batch: &Batch,
        range: PositionRange,
        folders: BTreeMap<String, Vec<usize>>,
        refused: &mut Vec<(usize, Refusal)>,
    ) -> Result<Vec<Entry>, SinkError> {
        let mut waiting = folders.into_iter();
        let mut running = FuturesUnordered::new();
        let mut written = Vec::new();
        let mut failure = None;
        loop {
            while failure.is_none() && running.len() < CONCURRENT_UPLOADS {
                let Some((folder, indices)) = waiting.next() else {
                    break;
                };
                running.push(self.upload(batch, range, folder, indices));
            }
            match running.next().await {
                Some(Ok((entry, refusals))) => {
                    written.extend(entry);
                    refused.extend(refusals);
                }
                Some(Err(error)) => failure = failure.or(Some(error)),
                None => break,
            }
        }
        failure.map_or(Ok(written), Err)
    }

    async fn upload(
        &self,
        batch: &Batch,
        range: PositionRange,
        folder: String,
        indices: Vec<usize>,
    ) -> Result<(Option<Entry>, Vec<(usize, Refusal)>), SinkError> {
        let (writing, batch) = (Arc::clone(&self.writing), batch.clone());
        let pack = move || body::pack(&writing.encoder, writing.compression, &batch, &indices);
        let Packed { body, refused } = tokio::task::spawn_blocking(pack)
            .await
            .map_err(|error| SinkError::failed("compress an object").with_source(error))??;
        let Some(body) = body else {
            return Ok((None, refused));
        };
        let key = self.writing.layout.object(&folder, &range, &body.sha256);
        let entry = Entry {
            key: key.clone(),
            events: body.events,
            uncompressed_bytes: body.uncompressed_bytes,
            sha256: body.sha256.clone(),
        };
        let object = Object {
            key,
            content_type: self.writing.compression.content_type(),
            sha256: body.sha256,
            bytes: body.bytes,
        };
        if !self.stored().contains(&entry.key) {
            Box::pin(self.store.put(object)).await?;
            self.stored().insert(entry.key.clone());
        }
        Ok((Some(entry), refused))
    }
}

/// A batch's events, by the folder they go to and their index in the batch.
#[derive(Debug)]
struct Groups {
    folders: BTreeMap<String, Vec<usize>>,
    refused: Vec<(usize, Refusal)>,
}

fn group(layout: &Layout, batch: &Batch) -> Groups {
    let mut folders: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut refused = Vec::new();
    for (index, event) in batch.iter().enumerate() {
        match layout.folder(event) {
            Ok(folder) => folders.entry(folder).or_default().push(index),
            Err(refusal) => refused.push((index, refusal)),
        }
    }
    Groups { folders, refused }
}

/// Where the events stand that can't be stored.
fn positions(batch: &Batch, refused: &[(usize, Refusal)]) -> Vec<Position> {
    let refused = refused.iter().filter_map(|(index, _)| batch.get(*index));
    refused.map(Event::position).collect()
}

fn verdicts(events: usize, refused: Vec<(usize, Refusal)>) -> Delivery {
    let mut verdicts = vec![Verdict::Delivered; events];
    for (index, refusal) in refused {
        if let Some(verdict) = verdicts.get_mut(index) {
            *verdict = Verdict::Undeliverable(refusal);
        }
    }
    Delivery::from_verdicts(verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::PartitionBy;

    fn batch(types: &[&str]) -> Batch {
        let event = |(seq, event_type): (i64, &&str)| {
            let payload = format!(r#"{{"id":"evt_{seq}","type":"{event_type}"}}"#);
            Event::new(Position::new(1, seq), (*event_type).to_owned(), payload)
        };
        Batch::new((1..).zip(types).map(event).collect::<Vec<_>>()).unwrap()
    }

    fn layout() -> Layout {
        Layout {
            prefix: String::new(),
            partition_by: vec![PartitionBy::Type],
            extension: "ndjson",
        }
    }

    #[test]
    fn each_partition_keeps_its_events_in_the_batchs_order() {
        let groups = group(&layout(), &batch(&["b.x", "a.x", "b.x", "b.x", "a.x"]));
        let folders: Vec<_> = groups.folders.into_iter().collect();
        assert_eq!(
            folders,
            [
                ("type=a.x/".to_owned(), vec![1, 4]),
                ("type=b.x/".to_owned(), vec![0, 2, 3])
            ]
        );
    }

    #[test]
    fn one_event_that_can_not_be_sent_does_not_hold_up_the_others() {
        let long = format!("a.{}", "x".repeat(2_000));
        let groups = group(&layout(), &batch(&["a.x", &long]));
        assert_eq!(groups.folders.len(), 1);
        let Delivery::Each(verdicts) = verdicts(2, groups.refused) else {
            panic!("not all are delivered");
        };
        assert_eq!(verdicts[0], Verdict::Delivered);
        assert!(
            matches!(&verdicts[1], Verdict::Undeliverable(refusal) if refusal.code() == "KEY_TOO_LONG")
        );
    }

    #[test]
    fn without_refusals_all_is_delivered() {
        assert_eq!(verdicts(3, Vec::new()), Delivery::All);
    }
}
