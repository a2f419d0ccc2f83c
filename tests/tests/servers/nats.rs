use async_nats::jetstream::{Context, stream};
use futures_util::StreamExt;
use outbox_tests::servers::{Nats, shared};

async fn create_stream(jetstream: &Context, name: &str) {
    let subjects = vec![format!("{name}.>")];
    let config = stream::Config {
        name: name.to_owned(),
        subjects,
        ..Default::default()
    };
    jetstream.create_stream(config).await.unwrap();
}

async fn publish(jetstream: &Context, subject: &str, payload: &'static str) -> u64 {
    let published = jetstream
        .publish(subject.to_owned(), payload.into())
        .await
        .unwrap();
    published.await.expect("JetStream acknowledges").sequence
}

async fn payloads(jetstream: &Context, name: &str) -> Vec<String> {
    let stream = jetstream.get_stream(name).await.unwrap();
    let last = stream.get_info().await.unwrap().state.last_sequence;
    futures_util::stream::iter(1..=last)
        .then(|sequence| stream.get_raw_message(sequence))
        .map(|message| String::from_utf8(message.unwrap().payload.to_vec()).unwrap())
        .collect()
        .await
}

#[tokio::test]
async fn a_publish_is_acknowledged_and_can_be_read() {
    let nats = shared::nats().await;
    let jetstream = nats.jetstream().await;
    create_stream(&jetstream, "read").await;
    assert_eq!(publish(&jetstream, "read.a", "one").await, 1);
    assert_eq!(publish(&jetstream, "read.b", "two").await, 2);
    assert_eq!(payloads(&jetstream, "read").await, ["one", "two"]);
}

#[tokio::test]
async fn acknowledged_messages_survive_kill_and_stop() {
    let mut nats = Nats::start().await;
    let url = nats.url();
    create_stream(&nats.jetstream().await, "kept").await;
    publish(&nats.jetstream().await, "kept.a", "before the kill").await;
    nats.kill().await;
    assert!(
        async_nats::connect(&url).await.is_err(),
        "a killed server does not listen"
    );
    nats.start_again().await;
    publish(&nats.jetstream().await, "kept.a", "before the stop").await;
    nats.stop().await;
    nats.start_again().await;
    assert_eq!(nats.url(), url);
    let found = payloads(&nats.jetstream().await, "kept").await;
    assert_eq!(found, ["before the kill", "before the stop"]);
}

#[tokio::test]
async fn a_login_and_a_largest_payload_can_be_set() {
    let nats = Nats::options()
        .login("ann", "secret")
        .max_payload(1_000)
        .start()
        .await;
    assert!(
        async_nats::connect(nats.url()).await.is_err(),
        "nobody gets in without a login"
    );
    let client = nats.client().await;
    assert_eq!(client.server_info().max_payload, 1_000);
}
