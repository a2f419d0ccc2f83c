//! Faults: what the sink makes of them, and that nothing is lost by them.

use std::time::Duration;

use outbox_sinks::{Delivery, ErrorKind};
use serde_json::json;
use tokio::time::Instant;

use super::scripted::{Fault, Scripted};
use super::{batch, connector, open, open_within, with};

#[tokio::test]
async fn a_batch_whose_answer_was_lost_is_found_stored_the_next_time() {
    // F32: the answer to the object, then the one to the manifest.
    for faults in [
        vec![Fault::LoseAnswer],
        vec![Fault::None, Fault::LoseAnswer],
    ] {
        let server = Scripted::start(faults).await;
        let mut sink = open(server.settings()).await;
        let error = sink.deliver(&batch(1, 10)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert_eq!(sink.deliver(&batch(1, 10)).await.unwrap(), Delivery::All);
        assert_eq!(server.stored().len(), 2, "one object and one manifest");
        let conditional = |put: &super::scripted::Put| {
            put.headers
                .get("if-none-match")
                .is_some_and(|any| any == "*")
        };
        assert!(server.puts().iter().all(conditional));
    }
}

#[tokio::test]
async fn every_answer_is_classified_and_the_next_attempt_goes_well() {
    use ErrorKind::{Failed, Misconfigured, Unavailable};
    for (status, code, kind) in [
        (409, "ConditionalRequestConflict", Unavailable),
        (503, "SlowDown", Unavailable),
        (500, "InternalError", Unavailable),
        (502, "", Unavailable),
        (403, "AccessDenied", Misconfigured),
        (403, "SignatureDoesNotMatch", Misconfigured),
        (404, "NoSuchBucket", Misconfigured),
        (301, "PermanentRedirect", Misconfigured),
        (400, "AuthorizationHeaderMalformed", Misconfigured),
        (501, "NotImplemented", Misconfigured),
        (400, "InvalidRequest", Failed),
    ] {
        let server = Scripted::start([Fault::Answer(status, code)]).await;
        let mut sink = open(server.settings()).await;
        let error = sink.deliver(&batch(1, 10)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{status} {code}: {error:?}");
        assert_eq!(error.advice().is_some(), kind == Misconfigured, "{error:?}");
        assert!(
            error.chain().contains(&status.to_string()),
            "{}",
            error.chain()
        );
        assert_eq!(
            server.puts().len(),
            1,
            "the client does not try again by itself"
        );
        assert_eq!(sink.deliver(&batch(1, 10)).await.unwrap(), Delivery::All);
    }
}

#[tokio::test]
async fn no_manifest_is_written_before_every_object_is_stored() {
    let faults = [Fault::None, Fault::Close, Fault::None];
    let server = Scripted::start(faults).await;
    let mut sink = open(with(server.settings(), json!({"partition_by": ["type"]}))).await;
    let error = sink.deliver(&batch(1, 30)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let manifests = |stored: Vec<String>| {
        stored
            .iter()
            .filter(|path| path.contains("_manifests"))
            .count()
    };
    assert_eq!(server.stored().len(), 2, "what was under way was awaited");
    assert_eq!(manifests(server.stored()), 0);

    assert_eq!(sink.deliver(&batch(1, 30)).await.unwrap(), Delivery::All);
    assert_eq!(server.stored().len(), 4);
    assert_eq!(server.puts().len(), 5, "what was stored is not put again");
    assert_eq!(manifests(server.stored()), 1);
    assert!(server.puts().last().unwrap().path.contains("_manifests"));
}

#[tokio::test]
async fn a_server_that_hangs_is_an_outage_within_the_delivery_timeout() {
    let server = Scripted::start([Fault::None, Fault::None, Fault::Hang]).await;
    let timeout = Duration::from_secs(2);
    let settings = with(server.settings(), json!({"partition_by": ["type"]}));
    let mut sink = open_within(settings, timeout).await.unwrap();
    let started = Instant::now();
    let error = sink.deliver(&batch(1, 10)).await.unwrap_err();
    assert!(started.elapsed() < timeout, "{:?}", started.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(sink.deliver(&batch(1, 10)).await.unwrap(), Delivery::All);
    assert_eq!(
        server.puts().len(),
        5,
        "the next attempt went on from there"
    );
}

#[tokio::test]
async fn a_store_that_refuses_the_newer_checksums_works_by_default() {
    // F20
    let server = Scripted::start([]).await;
    server.refuse_checksums();
    let mut sink = open(server.settings()).await;
    assert_eq!(sink.deliver(&batch(1, 10)).await.unwrap(), Delivery::All);

    let mut strict = open(with(
        server.settings(),
        json!({"checksums": "when-supported"}),
    ))
    .await;
    let error = strict.deliver(&batch(11, 20)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
}

#[tokio::test]
async fn without_conditional_puts_no_condition_is_sent() {
    let server = Scripted::start([]).await;
    let mut sink = open(with(server.settings(), json!({"conditional_put": false}))).await;
    for _ in 0..2 {
        assert_eq!(sink.deliver(&batch(1, 10)).await.unwrap(), Delivery::All);
    }
    assert!(
        server
            .puts()
            .iter()
            .all(|put| !put.headers.contains_key("if-none-match"))
    );
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_an_outage() {
    let port = outbox_tests::servers::free_port();
    let settings = json!({
        "bucket": "events", "endpoint": format!("http://127.0.0.1:{port}"),
        "access_key_id": "id", "secret_access_key": "secret",
    });
    let error = connector(settings).probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn plain_text_where_tls_is_expected_is_no_panic() {
    let server = Scripted::start([]).await;
    let endpoint = server.settings()["endpoint"]
        .as_str()
        .unwrap()
        .replace("http://", "https://");
    let error = connector(with(server.settings(), json!({"endpoint": endpoint})))
        .probe()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}
