//! Topics on a test's Kafka: make one, and read all of it.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::task::spawn_blocking;

use super::kafka::Kafka;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A message as it lies in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaMessage {
    /// The partition.
    pub partition: i32,
    /// The offset in it.
    pub offset: i64,
    /// The key, if it has one.
    pub key: Option<Vec<u8>>,
    /// The value; `None` for a tombstone.
    pub payload: Option<Vec<u8>>,
    /// Names and values, in order.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Kafka {
    /// Creates a topic and waits until it can be used.
    ///
    /// # Panics
    ///
    /// If the broker refuses it.
    pub async fn create_topic(&self, name: &str, partitions: i32) {
        self.create_topic_with(name, partitions, &[]).await;
    }

    /// Creates a topic with settings such as `("max.message.bytes", "1000")`.
    ///
    /// # Panics
    ///
    /// If the broker refuses it.
    pub async fn create_topic_with(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> = self
            .client()
            .create()
            .expect("the settings of a test's client are right");
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        topic.config = config.to_vec();
        let options = AdminOptions::new().operation_timeout(Some(TIMEOUT));
        let results = admin
            .create_topics([&topic], &options)
            .await
            .expect("Kafka answers");
        for result in results {
            result.expect("Kafka creates the topic");
        }
    }

    /// Everything that is in a topic now, by partition and offset. Messages of transactions that
    /// are open or were aborted are left out.
    ///
    /// # Panics
    ///
    /// If there is no such topic, or the broker does not answer.
    pub async fn messages(&self, topic: &str) -> Vec<KafkaMessage> {
        let (config, topic) = (self.client(), topic.to_owned());
        spawn_blocking(move || read_all(&config, &topic))
            .await
            .expect("the topic can be read")
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap());
        config
    }
}

fn read_all(config: &ClientConfig, topic: &str) -> Vec<KafkaMessage> {
    let consumer: BaseConsumer = config
        .clone()
        .set("group.id", "outbox-tests")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .create()
        .expect("the settings of a test's client are right");
    let metadata = consumer
        .fetch_metadata(Some(topic), TIMEOUT)
        .expect("Kafka answers");
    let mut assignment = TopicPartitionList::new();
    for partition in metadata
        .topics()
        .iter()
        .flat_map(|topic| topic.partitions())
    {
        assignment
            .add_partition_offset(topic, partition.id(), Offset::Beginning)
            .expect("a partition can be read from its beginning");
    }
    assert!(assignment.count() > 0, "there is no topic {topic}");
    consumer
        .assign(&assignment)
        .expect("partitions can be assigned");

    let mut messages = BTreeMap::new();
    let mut unread = assignment.count();
    while unread > 0 {
        match consumer.poll(TIMEOUT).expect("Kafka answers in time") {
            Ok(message) => {
                messages.insert((message.partition(), message.offset()), owned(&message));
            }
            Err(rdkafka::error::KafkaError::PartitionEOF(_)) => unread -= 1,
            Err(error) => panic!("the topic {topic} cannot be read: {error}"),
        }
    }
    messages.into_values().collect()
}

fn owned(message: &BorrowedMessage<'_>) -> KafkaMessage {
    let headers = message.headers().map(|headers| {
        headers
            .iter()
            .map(|header| {
                (
                    header.key.to_owned(),
                    header.value.unwrap_or_default().to_vec(),
                )
            })
            .collect()
    });
    KafkaMessage {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        payload: message.payload().map(<[u8]>::to_vec),
        headers: headers.unwrap_or_default(),
    }
}
