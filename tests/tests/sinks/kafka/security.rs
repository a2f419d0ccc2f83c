//! Who may connect, and that no secret is told.

use std::time::Duration;

use outbox_sinks::{Delivery, ErrorKind};
use outbox_tests::servers::Kafka;

use super::{batch, connector, event, open, topic_name};

const JAAS: &str =
    "org.apache.kafka.common.security.plain.PlainLoginModule required user_sinks=\"open-sesame\";";

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_a_misconfiguration_and_is_not_told() {
    let map = "DIRECT:PLAINTEXT,PROXIED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT";
    let options = Kafka::options()
        .set("listener.security.protocol.map", map)
        .set("listener.name.proxied.sasl.enabled.mechanisms", "PLAIN")
        .set("listener.name.proxied.plain.sasl.jaas.config", JAAS);
    let (kafka, proxy) = options.start_behind_proxy().await;
    let topic = topic_name("sasl");
    kafka.create_topic(&topic, 1).await;
    let settings = |password: &str| {
        format!(
            "topic = \"{topic}\"\nsasl = {{ mechanism = \"PLAIN\", username = \"sinks\", password = \"{password}\" }}"
        )
    };
    let bootstrap = proxy.addr().to_string();
    let batch = batch(vec![event(1, "node/7", 10)]);

    let wrong = settings("wrong-sesame");
    let mut sink = open(&bootstrap, &wrong, Duration::from_secs(4)).await;
    let delivered = sink
        .deliver(&batch)
        .await
        .expect_err("the password is wrong");
    let probed = connector(&bootstrap, &wrong)
        .probe()
        .await
        .expect_err("the password is wrong");
    for error in [delivered, probed] {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(!format!("{error:?}").contains("wrong-sesame"), "{error:?}");
    }

    let right = settings("open-sesame");
    connector(&bootstrap, &right)
        .probe()
        .await
        .expect("the password is right");
    let mut sink = open(&bootstrap, &right, Duration::from_secs(20)).await;
    assert_eq!(
        sink.deliver(&batch).await.expect("the password is right"),
        Delivery::All
    );
}
