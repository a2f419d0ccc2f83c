//! A server that would lose what it acknowledged is refused.

use outbox_sinks::{Delivery, ErrorKind};
use outbox_tests::servers::{Redis, RedisOptions};
use serde_json::json;

use super::{SECRET, connector, events, ids, open};

#[tokio::test]
async fn a_server_that_promises_less_than_is_wanted_is_refused_with_advice() {
    let options = Redis::options;
    let cases: [(RedisOptions, &str, Option<&str>); 7] = [
        (options(), "always", None),
        (options().no_log(), "always", Some("appendonly")),
        (options().no_log(), "none", None),
        (
            options().line("appendfsync everysec"),
            "always",
            Some("appendfsync"),
        ),
        (options().line("appendfsync everysec"), "everysec", None),
        (
            options().line("no-appendfsync-on-rewrite yes"),
            "always",
            Some("no-appendfsync-on-rewrite"),
        ),
        (
            options()
                .max_memory(50_000_000)
                .line("maxmemory-policy allkeys-lru"),
            "everysec",
            Some("noeviction"),
        ),
    ];
    for (options, durability, advice) in cases {
        let redis = options.clone().start().await;
        let connector = connector(&redis.url(), json!({ "durability": durability }));
        let outcome = open(&*connector).await.map(drop);
        match advice {
            None => outcome.unwrap(),
            Some(advice) => {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
                assert!(error.advice().unwrap().contains(advice), "{error:?}");
                assert!(connector.probe().await.is_err(), "{options:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_keeps_its_settings_to_itself_must_be_trusted_in_so_many_words() {
    let redis = Redis::start().await;
    let user = format!("ACL SETUSER blind on >{SECRET} ~* +@all -config");
    redis.run::<String>(&user).await;
    let login =
        |durability: &str| json!({ "user": "blind", "password": SECRET, "durability": durability });
    let error = connector(&redis.url(), login("always"))
        .probe()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.advice().unwrap().contains("CONFIG GET"), "{error:?}");
    connector(&redis.url(), login("none"))
        .probe()
        .await
        .unwrap();
}

#[tokio::test]
async fn what_was_delivered_survives_kill_9() {
    let mut redis = Redis::start().await;
    let connector = connector(&redis.url(), json!({ "stream": "kept" }));
    let mut sink = open(&*connector).await.unwrap();
    assert_eq!(sink.deliver(&events(500)).await.unwrap(), Delivery::All);
    redis.kill().await;
    redis.start_again().await;
    assert_eq!(ids(&redis, "kept").await.len(), 500);
}
