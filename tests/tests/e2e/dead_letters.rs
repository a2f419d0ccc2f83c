//! Dead letters in an operator's hands, on a real Kafka and a real NATS: listed, shown, replayed
//! after the fault is gone, and discarded.

use async_nats::jetstream::stream::Config;
use outbox_tests::servers::shared;
use serde_json::Value;

use super::fixture::{Delivered, Scene, eventually, in_kafka, in_nats, publish_in_one};

const SINKS: [&str; 2] = ["k", "n"];

/// The names at the destinations, in which the broken configuration puts a part of the type.
fn configure(scene: &Scene, brokers: &str, servers: &str, name: &str) {
    scene.configure(&format!(
        "[sinks.k.kafka]\nbrokers = [\"{brokers}\"]\ntopic = \"dl-{name}\"\n\
         [sinks.n.nats]\nservers = [\"{servers}\"]\nsubject = \"dl.{name}\"\n"
    ));
}

async fn listed(scene: &Scene, options: &[&str]) -> Vec<Value> {
    let args = [&["dead-letters", "list", "--json"], options].concat();
    let shown = scene.sinks(&args).await.succeeded();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["dead_letters"].as_array().unwrap().clone()
}

async fn in_state(scene: &Scene, state: &str, count: usize) {
    let look = async || {
        let all = listed(scene, &["--all"]).await;
        let there = all.iter().filter(|letter| letter["state"] == state);
        (there.count() == count).then_some(())
    };
    eventually(&format!("{count} dead letters are {state}"), look).await;
}

/// A sink's dead letters are the fourth and the ninth event. Gives up the second of them.
async fn look_and_discard(scene: &Scene, sink: &str, published: &[Delivered]) {
    let dead = listed(scene, &["--sink", sink, "--type", "or*"]).await;
    let ids: Vec<_> = dead
        .iter()
        .map(|letter| letter["event_id"].as_str())
        .collect();
    let expected = [3, 8].map(|index| Some(published[index].id.as_str()));
    assert_eq!(ids, expected, "{dead:?}");
    let [first, second] = [&dead[0], &dead[1]].map(|letter| letter["id"].to_string());
    let show = ["dead-letters", "show", &first];
    let shown = scene.sinks(&show).await.succeeded();
    assert!(shown.contains(&published[3].id), "{shown}");
    let discard = ["dead-letters", "discard", "--id", &second];
    scene.sinks(&discard).await.succeeded();
}

/// What came last is this event, marked as its first replay.
async fn assert_replayed(id: &str) {
    let kafka = shared::kafka().await;
    let delivered = in_kafka(kafka, "dl-order").await;
    assert_eq!((delivered.len(), delivered[18].id.as_str()), (19, id));
    let messages = kafka.messages("dl-order").await;
    let mut headers = messages[18].headers.iter();
    let mark = headers.find(|(name, _)| name == "outbox-replay");
    assert_eq!(mark.map(|(_, value)| value.as_slice()), Some(&b"1"[..]));

    let jetstream = shared::nats().await.jetstream().await;
    let delivered = in_nats(&jetstream, "DL").await;
    assert_eq!((delivered.len(), delivered[18].id.as_str()), (19, id));
    let stream = jetstream.get_stream("DL").await.unwrap();
    let message = stream.get_raw_message(19).await.unwrap();
    let mark = message.headers.get("outbox-replay");
    assert_eq!(mark.map(|value| value.as_str()), Some("1"));
}

#[tokio::test]
async fn what_brokers_can_not_take_is_replayed_after_the_fault_is_gone_or_discarded() {
    let scene = Scene::new().await;
    let (kafka, nats) = tokio::join!(shared::kafka(), shared::nats());
    kafka.create_topic("dl-order", 1).await;
    let stream = Config {
        name: "DL".to_owned(),
        subjects: vec!["dl.>".to_owned()],
        ..Config::default()
    };
    let jetstream = nats.jetstream().await;
    jetstream.create_stream(stream).await.unwrap();
    let (brokers, servers) = (kafka.bootstrap(), nats.url());
    // No topic and no subject may hold a space.
    configure(&scene, &brokers, &servers, "{area}");
    let published = publish_in_one(scene.database(), 20, "or der.paid", &[4, 9]).await;
    let mut worker = scene.run("broken");
    for sink in SINKS {
        scene.up_to_date(sink).await;
    }
    worker.stop().await;
    for sink in SINKS {
        look_and_discard(&scene, sink, &published).await;
    }
    in_state(&scene, "discarded", 2).await;

    // The configuration is mended, and nothing happens of its own accord.
    configure(&scene, &brokers, &servers, "order");
    let mut worker = scene.run("mended");
    for sink in SINKS {
        scene.up_to_date(sink).await;
    }
    let replay = ["dead-letters", "replay", "--type", "or*"];
    let dry_run = [&replay[..], &["--dry-run"]].concat();
    let planned = scene.sinks(&dry_run).await.succeeded();
    assert!(
        planned.contains("2 would be replayed: 1 of k, 1 of n"),
        "{planned}"
    );
    in_state(&scene, "dead", 2).await;
    scene.sinks(&replay).await.succeeded();
    in_state(&scene, "replayed", 2).await;
    worker.stop().await;
    assert_replayed(&published[3].id).await;
}
