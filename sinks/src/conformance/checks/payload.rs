//! OB-9: "The payload's JSON text reaches the destination unchanged".

use futures_util::FutureExt;

use crate::conformance::finding::Finding;
use crate::conformance::scene::{Scene, batch};
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};

/// What is lost by those who read JSON into their own types and write it again. Each is a
/// text that no body holds by chance.
const TEXTS: &[&str] = &[
    "1234567890123456789",
    "18446744073709551616",
    "1.10",
    "1e400",
    "-0.0",
    r#"{"b":1,"a":2,"b":3}"#,
    r#"{ "spaced" : [ 1 , 2 ] }"#,
    r#""Grüße, 世界 \u00e9 \ud83d\ude00 😀""#,
    r#""a \"quote\", a \\ and a \/ slash, a tab \t and a line \n""#,
    r#"{"id":"evt_0","sequence":"0.0","data":null}"#,
    r#"{"v":null}"#,
    r#"{"v":true}"#,
    r#"{"v":[]}"#,
];

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(Rule::Payload, "data arrives byte for byte", |scene| {
            exact(scene).boxed()
        })
        .await;
    suite
        .check(
            Rule::Payload,
            "60 KiB of data arrive byte for byte",
            |scene| large(scene).boxed(),
        )
        .await;
}

async fn exact<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    let event = |text: &&str| scene.draft(0).with_data(*text).event();
    let batch = batch(TEXTS.iter().map(event).collect());
    courier.deliver_all(&batch).await?;
    scene.verify(courier.connector(), &batch).await
}

/// The largest payload that `publish` takes is 64 KiB.
async fn large<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    let mut courier = scene.courier();
    let batch = scene.large_batch(2, 2, 60 * 1024);
    courier.deliver_all(&batch).await?;
    scene.verify(courier.connector(), &batch).await
}
