//! Faults that only a mock cluster shows on demand.

use std::time::Duration;

use outbox_sinks::{Delivery, ErrorKind};
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{batch, event, open};

/// A fault is for one request: all events that are sent at once must be in it.
const ONE_REQUEST: &str = "linger = \"200ms\"";

fn events(from: i64) -> outbox_sinks::Batch {
    batch(
        (from..from + 20)
            .map(|seq| event(seq, &format!("node/{}", seq % 3), 10))
            .collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn d13_after_a_fatal_error_a_new_producer_goes_on() {
    let cluster = MockCluster::new(1).expect("a mock cluster starts");
    cluster
        .create_topic("events", 1, 1)
        .expect("it takes a topic");
    let mut sink = open(
        &cluster.bootstrap_servers(),
        ONE_REQUEST,
        Duration::from_secs(10),
    )
    .await;
    assert_eq!(
        sink.deliver(&events(0)).await.expect("all is well"),
        Delivery::All
    );
    let fatal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    cluster.request_errors(RDKafkaApiKey::Produce, &[fatal]);
    let error = sink
        .deliver(&events(20))
        .await
        .expect_err("the producer is broken");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(
        sink.deliver(&events(20)).await.expect("a new producer"),
        Delivery::All
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_against_a_request_of_several_blames_none_of_them() {
    let cluster = MockCluster::new(1).expect("a mock cluster starts");
    cluster
        .create_topic("events", 1, 1)
        .expect("it takes a topic");
    let mut sink = open(
        &cluster.bootstrap_servers(),
        ONE_REQUEST,
        Duration::from_secs(10),
    )
    .await;
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD;
    cluster.request_errors(RDKafkaApiKey::Produce, &[refused]);
    let error = sink
        .deliver(&events(0))
        .await
        .expect_err("a request was refused");
    assert_eq!(error.kind(), ErrorKind::Failed, "it has to be halved");
    assert!(error.chain().contains("INVALID_RECORD"), "{error:?}");
    assert_eq!(
        sink.deliver(&events(0)).await.expect("taken at last"),
        Delivery::All
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn d30_a_leader_that_is_gone_for_a_moment_is_no_failure() {
    let cluster = MockCluster::new(2).expect("a mock cluster starts");
    cluster
        .create_topic("events", 3, 2)
        .expect("it takes a topic");
    let mut sink = open(&cluster.bootstrap_servers(), "", Duration::from_secs(20)).await;
    let passing = [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    ];
    cluster.request_errors(RDKafkaApiKey::Produce, &passing);
    assert_eq!(
        sink.deliver(&events(0)).await.expect("it passes"),
        Delivery::All
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_may_not_be_written_is_a_misconfiguration() {
    let cluster = MockCluster::new(1).expect("a mock cluster starts");
    cluster
        .create_topic("events", 1, 1)
        .expect("it takes a topic");
    let mut sink = open(
        &cluster.bootstrap_servers(),
        ONE_REQUEST,
        Duration::from_secs(10),
    )
    .await;
    let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::Produce, &[denied]);
    let error = sink.deliver(&events(0)).await.expect_err("not allowed");
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert_eq!(
        sink.deliver(&events(0)).await.expect("allowed at last"),
        Delivery::All
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_broker_says_of_itself_speaks_against_no_event() {
    let cluster = MockCluster::new(1).expect("a mock cluster starts");
    cluster
        .create_topic("events", 1, 1)
        .expect("it takes a topic");
    let brokers = cluster.bootstrap_servers();
    for (answer, kind) in [
        (
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN,
            ErrorKind::Unavailable,
        ),
        (
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP,
            ErrorKind::Misconfigured,
        ),
    ] {
        let mut sink = open(&brokers, ONE_REQUEST, Duration::from_secs(10)).await;
        cluster.request_errors(RDKafkaApiKey::Produce, &[answer]);
        let alone = batch(vec![event(0, "node/0", 10)]);
        let error = sink.deliver(&alone).await.expect_err("it is not taken");
        assert_eq!(error.kind(), kind, "{error:?}");
        assert_eq!(
            sink.deliver(&alone).await.expect("taken at last"),
            Delivery::All
        );
    }
}
