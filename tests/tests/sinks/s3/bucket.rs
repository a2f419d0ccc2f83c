//! A bucket of the real server, as a reader sees it.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use outbox_tests::servers::{S3, shared};
use serde_json::{Value, json};

/// A bucket of its own for one test.
pub(super) struct Bucket {
    client: Client,
    pub(super) name: String,
    endpoint: String,
    keys: [&'static str; 2],
}

impl Bucket {
    /// A new bucket on the server that all tests share.
    pub(super) async fn new() -> Self {
        Self::on(shared::s3().await)
    }

    /// A new bucket on this server.
    pub(super) fn on(server: &S3) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("bucket-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        server.create_bucket(&name);
        let keys @ [id, secret] = [server.access_key(), server.secret_key()];
        let credentials = Credentials::new(id, secret, None, None, "tests");
        let endpoint = server.endpoint();
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .credentials_provider(credentials)
            .region(Region::new("us-east-1"))
            .endpoint_url(&endpoint)
            .force_path_style(true)
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        Self {
            client: Client::from_conf(config),
            name,
            endpoint,
            keys,
        }
    }

    /// The settings that reach it.
    pub(super) fn settings(&self) -> Value {
        self.settings_through(&self.endpoint)
    }

    /// The settings that reach it by another way.
    pub(super) fn settings_through(&self, endpoint: &str) -> Value {
        json!({
            "bucket": self.name, "endpoint": endpoint,
            "access_key_id": self.keys[0], "secret_access_key": self.keys[1],
        })
    }

    /// All objects and their bytes, by key.
    pub(super) async fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let mut objects = BTreeMap::new();
        let mut pages = self
            .client
            .list_objects_v2()
            .bucket(&self.name)
            .into_paginator()
            .send();
        while let Some(page) = pages.next().await {
            for object in page.expect("a bucket can be listed").contents() {
                let key = object.key().expect("an object has a key");
                objects.insert(key.to_owned(), self.get(key).await);
            }
        }
        objects
    }

    /// An object's bytes.
    pub(super) async fn get(&self, key: &str) -> Vec<u8> {
        let object = self.client.get_object().bucket(&self.name).key(key);
        let object = object.send().await.expect("an object can be fetched");
        let body = object.body.collect().await.expect("a body can be read");
        body.to_vec()
    }

    /// Puts an object with this metadata, as somebody else would.
    pub(super) async fn put(
        &self,
        key: &str,
        bytes: &[u8],
        metadata: impl IntoIterator<Item = (String, String)>,
    ) {
        let put = self.client.put_object().bucket(&self.name).key(key);
        put.set_metadata(Some(metadata.into_iter().collect()))
            .body(bytes.to_vec().into())
            .send()
            .await
            .expect("an object can be put");
    }

    /// An object's metadata.
    pub(super) async fn metadata(&self, key: &str) -> HashMap<String, String> {
        let head = self.client.head_object().bucket(&self.name).key(key);
        let head = head.send().await.expect("an object can be looked at");
        head.metadata.unwrap_or_default()
    }

    /// What a warehouse does: the lines of all objects that manifests name, in order.
    pub(super) async fn read_by_manifests(&self) -> Vec<Value> {
        let objects = self.objects().await;
        let mut lines = Vec::new();
        for manifest in manifests(&objects, "_manifests/") {
            let before = lines.len();
            for entry in manifest["objects"]
                .as_array()
                .expect("a manifest lists objects")
            {
                let key = entry["key"].as_str().expect("an entry has a key");
                let text = unpacked(
                    key,
                    objects.get(key).expect("what a manifest names is there"),
                );
                let parsed = text
                    .lines()
                    .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
                lines.extend(parsed);
                assert_eq!(entry["uncompressed_bytes"], text.len());
            }
            assert_eq!(manifest["events"], lines.len() - before);
        }
        lines
    }
}

/// The manifests in this folder, in their order.
pub(super) fn manifests(objects: &BTreeMap<String, Vec<u8>>, folder: &str) -> Vec<Value> {
    let found = objects.iter().filter(|(key, _)| key.contains(folder));
    found
        .map(|(_, json)| serde_json::from_slice(json).expect("a manifest is JSON"))
        .collect()
}

/// The lines of an object, by what its name says of it.
pub(super) fn unpacked(key: &str, bytes: &[u8]) -> String {
    let mut text = String::new();
    if key.ends_with(".zst") {
        zstd::Decoder::new(bytes).and_then(|mut lines| lines.read_to_string(&mut text))
    } else if key.ends_with(".gz") {
        flate2::read::GzDecoder::new(bytes).read_to_string(&mut text)
    } else {
        (&mut &*bytes).read_to_string(&mut text)
    }
    .expect("an object is what its name says");
    text
}
