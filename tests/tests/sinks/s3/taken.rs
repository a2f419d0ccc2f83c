//! Names that are taken: whether what lies there is our own (F32).

use std::collections::HashMap;

use outbox_sinks::{Delivery, ErrorKind, SinkError};
use serde_json::json;

use super::bucket::{Bucket, unpacked};
use super::{batch, open, with};

/// Replaces every object by these bytes, with this metadata.
async fn replace(
    bucket: &Bucket,
    change: impl Fn(&str, Vec<u8>, HashMap<String, String>) -> (Vec<u8>, HashMap<String, String>),
) {
    for (key, bytes) in bucket.objects().await {
        let metadata = bucket.metadata(&key).await;
        let (bytes, metadata) = change(&key, bytes, metadata);
        bucket.put(&key, &bytes, metadata).await;
    }
}

async fn deliver_again(bucket: &Bucket) -> Result<Delivery, SinkError> {
    open(bucket.settings()).await.deliver(&batch(1, 10)).await
}

async fn delivered_once() -> Bucket {
    let bucket = Bucket::new().await;
    deliver_again(&bucket).await.unwrap();
    bucket
}

#[tokio::test]
async fn what_something_else_has_put_there_stops_the_sink_and_is_left_alone() {
    let foreign = b"something else".to_vec();
    let noted = |name: &str, value: String| (name.to_owned(), value);
    let length = noted("outbox-length", foreign.len().to_string());
    let hash = noted("outbox-sha256", "00".repeat(32));
    for metadata in [vec![], vec![length.clone()], vec![length, hash]] {
        let bucket = delivered_once().await;
        let metadata: HashMap<_, _> = metadata.into_iter().collect();
        replace(&bucket, |_, _, _| (foreign.clone(), metadata.clone())).await;
        let error = deliver_again(&bucket).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        let objects = bucket.objects().await;
        assert!(objects.values().all(|bytes| *bytes == foreign));
    }
}

#[tokio::test]
async fn the_metadata_alone_does_not_make_it_ours() {
    let bucket = delivered_once().await;
    replace(&bucket, |_, mut bytes, metadata| {
        bytes.pop();
        (bytes, metadata)
    })
    .await;
    let error = deliver_again(&bucket).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.advice().unwrap().contains("cut short"), "{error:?}");
    // A store that is told to overwrite heals it.
    let overwrite = with(bucket.settings(), json!({"conditional_put": false}));
    let mut sink = open(overwrite).await;
    assert_eq!(sink.deliver(&batch(1, 10)).await.unwrap(), Delivery::All);
    assert_eq!(bucket.read_by_manifests().await.len(), 10);
}

#[tokio::test]
async fn the_same_lines_by_another_version_of_the_compressor_are_ours() {
    let bucket = delivered_once().await;
    replace(&bucket, |key, bytes, mut metadata| {
        if key.contains("_manifests") {
            return (bytes, metadata);
        }
        let other = zstd::encode_all(unpacked(key, &bytes).as_bytes(), 19).unwrap();
        assert_ne!(other.len(), bytes.len());
        metadata.insert("outbox-length".to_owned(), other.len().to_string());
        (other, metadata)
    })
    .await;
    assert_eq!(deliver_again(&bucket).await.unwrap(), Delivery::All);
}
