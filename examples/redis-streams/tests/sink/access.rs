//! Who may do what.

use outbox_sinks::{Delivery, ErrorKind};
use outbox_tests::servers::{Redis, shared};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{SECRET, connector, events, open};

#[tokio::test]
async fn a_wrong_password_is_misconfigured_and_not_shown() {
    let redis = Redis::options().password("right").start().await;
    let addr = redis.addr();
    for (url, settings) in [
        (redis.url(), json!({ "password": SECRET })),
        (redis.url(), json!({ "user": "ann", "password": SECRET })),
        (format!("redis://:{SECRET}@{addr}"), json!({})),
        (redis.url(), json!({})),
    ] {
        let connector = connector(&url, settings);
        let error = connector.probe().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
        assert!(open(&*connector).await.is_err());
    }
    for (url, settings) in [
        (redis.url(), json!({ "password": "right" })),
        (format!("redis://:right@{addr}"), json!({})),
    ] {
        connector(&url, settings).probe().await.unwrap();
    }
}

/// Redis quotes the arguments of a command that it does not know.
#[tokio::test]
async fn a_server_without_logins_does_not_repeat_the_password() {
    let redis = Redis::options()
        .line("rename-command AUTH \"\"")
        .start()
        .await;
    let connector = connector(&redis.url(), json!({ "password": SECRET }));
    let error = connector.probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
}

#[tokio::test]
async fn the_rights_that_the_readme_lists_are_enough_and_one_less_blames_nobody() {
    const README: &str = include_str!("../../README.md");
    const RIGHTS: &str = "+multi +exec +xadd +xlen +ping +info +select +config|get";
    assert!(README.contains(RIGHTS));
    let redis = shared::redis().await;
    let user = format!("ACL SETUSER few on >{SECRET} ~few.* {RIGHTS}");
    redis.run::<String>(&user).await;
    let login = json!({ "user": "few", "password": SECRET, "stream": "few.x" });
    let mut sink = open(&*connector(&redis.url(), login)).await.unwrap();
    assert_eq!(sink.deliver(&events(2)).await.unwrap(), Delivery::All);

    for less in ["-xadd", "-exec", "-multi", "resetkeys"] {
        redis.run::<String>(&user).await;
        redis
            .run::<String>(&format!("ACL SETUSER few {less}"))
            .await;
        let error = sink.deliver(&events(2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{less} {error:?}");
        assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
        redis.run::<String>(&user).await;
        assert_eq!(sink.deliver(&events(2)).await.unwrap(), Delivery::All);
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_misconfigured_where_tls_is_wanted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("rediss://:{SECRET}@{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        client.write_all(b"-ERR plain text\r\n").await.unwrap();
        client.read_to_end(&mut Vec::new()).await
    });
    let error = connector(&url, json!({})).probe().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(!format!("{error:?}").contains(SECRET), "{error:?}");
}
