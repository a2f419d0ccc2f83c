//! Streams that take nothing.

use outbox_sinks::{Delivery, ErrorKind, Verdict};
use outbox_tests::servers::shared;

use super::{batch, codes, connector, event, events, ids, open, sink};

#[tokio::test]
async fn a_key_that_holds_no_stream_is_refused_among_good_ones() {
    let redis = shared::redis().await;
    redis.run::<String>("SET wrong.b text").await;
    let mut sink = sink(&redis.url(), "wrong.{subject}").await;
    let some = [(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "c")];
    let some = batch(some.map(|(seq, subject)| event(seq, subject)).to_vec());
    let expected = [
        "delivered",
        "refused WRONG_TYPE",
        "delivered",
        "unconfirmed",
        "delivered",
    ];
    assert_eq!(codes(sink.deliver(&some).await.unwrap()), expected);
    assert_eq!(ids(redis, "wrong.a").await, ["evt_1", "evt_3"]);
    assert_eq!(ids(redis, "wrong.c").await, ["evt_5"]);
    assert_eq!(redis.run::<String>("GET wrong.b").await, "text");

    redis.run::<u64>("DEL wrong.b").await;
    let rest = batch(vec![event(2, "b"), event(4, "b")]);
    assert_eq!(sink.deliver(&rest).await.unwrap(), Delivery::All);
    assert_eq!(ids(redis, "wrong.b").await, ["evt_2", "evt_4"]);
}

/// Redis gives out the last ids that there are, and takes nothing more.
#[tokio::test]
async fn a_stream_whose_ids_are_used_up_stops_without_a_gap() {
    let redis = shared::redis().await;
    let last_but_one = format!("{0}-{1}", u64::MAX, u64::MAX - 1);
    redis
        .run::<String>(&format!("XADD used.a {last_but_one} id old"))
        .await;
    let mut sink = sink(&redis.url(), "used.{subject}").await;
    let some = [(1, "a"), (2, "a"), (3, "b"), (4, "a")];
    let some = batch(some.map(|(seq, subject)| event(seq, subject)).to_vec());
    let Delivery::Each(verdicts) = sink.deliver(&some).await.unwrap() else {
        panic!("the stream took everything")
    };
    let Verdict::Refused(refusal) = &verdicts[1] else {
        panic!("{verdicts:?}")
    };
    assert_eq!(refusal.code(), "STREAM_EXHAUSTED");
    let delivered = |index: usize| verdicts[index] == Verdict::Delivered;
    assert!(delivered(0) && delivered(2), "{verdicts:?}");
    assert_eq!(verdicts[3], Verdict::Unconfirmed);
    assert_eq!(ids(redis, "used.a").await, ["old", "evt_1"]);
}

#[tokio::test]
async fn where_all_goes_to_one_stream_its_fault_is_the_configurations() {
    let redis = shared::redis().await;
    let mut sink = sink(&redis.url(), "lone").await;
    redis.run::<String>("SET lone text").await;
    let error = sink.deliver(&events(3)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    let connector = connector(&redis.url(), serde_json::json!({ "stream": "lone" }));
    let error = connector.probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.chain().contains("WRONGTYPE"), "{error:?}");
    assert!(open(&*connector).await.is_err());
}
