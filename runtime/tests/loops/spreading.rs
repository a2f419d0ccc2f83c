//! Several workers share the sinks.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{Destination, MemoryStore, Worker, until};

const SINKS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn held(store: &MemoryStore) -> BTreeMap<String, usize> {
    let mut held = BTreeMap::new();
    store.look(|state| {
        for (lease, until) in state.leases.values() {
            if until.is_some() {
                *held.entry(lease.holder.clone()).or_default() += 1;
            }
        }
    });
    held
}

fn spread(store: &MemoryStore) -> Vec<usize> {
    held(store).into_values().collect()
}

#[tokio::test(start_paused = true)]
async fn sinks_spread_over_workers_that_come_and_go() {
    let (store, destination) = (MemoryStore::with_events(&[]), Destination::default());
    let first = Worker::start_many(&store, &destination, "w1", &SINKS);
    until("one has them all", || spread(&store) == [6]).await;
    let second = Worker::start_many(&store, &destination, "w2", &SINKS);
    until("two have half each", || spread(&store) == [3, 3]).await;
    let third = Worker::start_many(&store, &destination, "w3", &SINKS);
    until("three have a third each", || spread(&store) == [2, 2, 2]).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(spread(&store), [2, 2, 2], "and that is where it stays");
    second.stopped().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let sum: usize = held(&store).values().sum();
    assert_eq!(sum, 6, "without waiting for a lease to run out");
    until("two have half each again", || spread(&store) == [3, 3]).await;
    first.stopped().await;
    third.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_could_not_run_a_sink_is_not_given_it() {
    let (store, destination) = (MemoryStore::with_events(&[]), Destination::default());
    let first = Worker::start_many(&store, &destination, "w1", &SINKS);
    let other = Worker::start_many(&store, &destination, "w2", &["a", "x"]);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let held = held(&store);
    assert_eq!((held["w1"], held["w2"]), (5, 2));
    first.stopped().await;
    other.stopped().await;
}
