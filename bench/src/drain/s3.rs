//! To S3: a bucket for each run, objects without compression. The server keeps objects as files,
//! so they are counted and read where they lie.

use std::fs::{read, read_dir, remove_dir_all};
use std::path::PathBuf;

use anyhow::{Context, Result};
use outbox_tests::servers::S3;
use tokio::task::block_in_place;

use super::contender::Contender::{self, Ours, Produce, Read, Relay};
use super::destination::Destination;
use super::gate::Gate;
use super::ladder::{self, Plan};
use super::report::{self, Goals};
use crate::lab::Lab;
use crate::target::Target;
use crate::workload::{WORKLOADS, Workload};

const ORDER: [Contender; 6] = [Read, Relay, Produce, Ours, Ours, Produce];
/// A few objects each.
const EVENTS: [u32; 4] = [300_000, 150_000, 12_000, 3_000];

/// Measures, in so many rounds.
///
/// # Errors
/// If something could not be measured, or was delivered wrongly.
pub async fn run(lab: &Lab, rounds: u32) -> Result<Vec<Target>> {
    let buckets = Buckets(lab.s3().await);
    let workloads = Workload::with_events(WORKLOADS, EVENTS);
    let plan = Plan {
        section: "drain-s3",
        order: &ORDER,
        workloads: &workloads,
        rounds,
    };
    let results = ladder::climb(lab, &buckets, &plan, ladder::nothing_else).await?;
    let goals = Goals {
        against: Produce,
        least_ratio: 0.7,
        batch_bytes: 64 << 20,
    };
    Ok(report::print(&plan, &results, &goals))
}

#[derive(Debug)]
struct Buckets(S3);

impl Buckets {
    fn folder(&self, place: &str) -> PathBuf {
        self.0.root().join(bucket(place))
    }

    /// The objects that hold events, in the order of their names.
    fn objects(&self, place: &str) -> Result<Vec<PathBuf>> {
        let mut objects = Vec::new();
        for entry in read_dir(self.folder(place))? {
            let path = entry?.path();
            // What the server has not finished has another extension.
            if path
                .extension()
                .is_some_and(|extension| extension == "ndjson")
            {
                objects.push(path);
            }
        }
        objects.sort();
        Ok(objects)
    }
}

impl Destination for Buckets {
    fn name(&self) -> &'static str {
        "s3"
    }

    async fn make(&self, place: &str) -> Result<()> {
        self.0.create_bucket(&bucket(place));
        Ok(())
    }

    fn sink(&self, place: &str) -> String {
        let (endpoint, bucket) = (self.0.endpoint(), bucket(place));
        let (key, secret) = (self.0.access_key(), self.0.secret_key());
        // The last object would wait for more to come.
        format!(
            "[sinks.{place}.s3]\nbucket = \"{bucket}\"\nendpoint = \"{endpoint}\"\n\
             access_key_id = \"{key}\"\nsecret_access_key = \"{secret}\"\n\
             compression = \"none\"\n[sinks.{place}.batch]\nmax_wait = \"0s\"\n"
        )
    }

    fn floor_args(&self, place: &str) -> Vec<String> {
        let (endpoint, bucket) = (self.0.endpoint(), bucket(place));
        let args = ["--endpoint", &endpoint, "--bucket", &bucket];
        let keys = ["--access-key", self.0.access_key()];
        let secrets = ["--secret-key", self.0.secret_key()];
        args.into_iter()
            .chain(keys)
            .chain(secrets)
            .map(str::to_owned)
            .collect()
    }

    async fn progress(&self, place: &str) -> Result<u64> {
        let objects = self.objects(place)?;
        let sizes = objects.iter().map(|path| Ok(path.metadata()?.len()));
        sizes.sum()
    }

    fn complete(&self, _events: u32, bytes: u64) -> u64 {
        bytes
    }

    async fn read(&self, place: &str, gate: &mut Gate) -> Result<()> {
        block_in_place(|| {
            for object in self.objects(place)? {
                let lines = read(&object).context("read an object")?;
                for line in lines.split(|byte| *byte == b'\n') {
                    if !line.is_empty() {
                        gate.take(None, line, b"")?;
                    }
                }
            }
            Ok(())
        })
    }

    async fn remove(&self, place: &str) -> Result<()> {
        Ok(remove_dir_all(self.folder(place))?)
    }
}

/// A bucket's name has no underscores.
fn bucket(place: &str) -> String {
    place.replace('_', "-")
}
