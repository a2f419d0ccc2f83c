use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region, RequestChecksumCalculation};
use aws_sdk_s3::error::SdkError;
use bytes::Bytes;
use outbox_tests::servers::{S3, shared};

fn client(s3: &S3, secret_key: &str) -> Client {
    let keys = Credentials::new(s3.access_key(), secret_key, None, None, "test");
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(s3.endpoint())
        .force_path_style(true)
        .region(Region::new("us-east-1"))
        .credentials_provider(keys)
        .retry_config(RetryConfig::disabled())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .build();
    Client::from_conf(config)
}

/// Puts an object that must be new; the status if the server refuses, 0 if it does not answer.
async fn put(client: &Client, bucket: &str, key: &str, body: &'static str) -> Result<(), u16> {
    let body = Bytes::from_static(body.as_bytes()).into();
    let put = client
        .put_object()
        .bucket(bucket)
        .key(key)
        .if_none_match("*")
        .body(body);
    match put.send().await {
        Ok(_) => Ok(()),
        Err(SdkError::ServiceError(error)) => Err(error.raw().status().as_u16()),
        Err(_) => Err(0),
    }
}

async fn get(client: &Client, bucket: &str, key: &str) -> Bytes {
    let object = client
        .get_object()
        .bucket(bucket)
        .key(key)
        .send()
        .await
        .unwrap();
    object.body.collect().await.unwrap().into_bytes()
}

#[tokio::test]
async fn an_object_is_put_once_and_read_back() {
    let s3 = shared::s3().await;
    s3.create_bucket("read");
    let client = client(s3, s3.secret_key());
    assert_eq!(put(&client, "read", "a/b.ndjson", "first").await, Ok(()));
    assert_eq!(put(&client, "read", "a/b.ndjson", "second").await, Err(412));
    assert_eq!(get(&client, "read", "a/b.ndjson").await, "first");
    assert_eq!(
        std::fs::read(s3.root().join("read/a/b.ndjson")).unwrap(),
        b"first"
    );
}

#[tokio::test]
async fn a_wrong_key_is_refused() {
    let s3 = shared::s3().await;
    s3.create_bucket("locked");
    assert_eq!(
        put(&client(s3, "wrong"), "locked", "a", "x").await,
        Err(403)
    );
}

#[tokio::test]
async fn objects_survive_a_stop() {
    let mut s3 = S3::start().await;
    s3.create_bucket("kept");
    let (client, endpoint) = (client(&s3, s3.secret_key()), s3.endpoint());
    put(&client, "kept", "a", "x").await.unwrap();
    s3.stop().await;
    assert_eq!(
        put(&client, "kept", "b", "x").await,
        Err(0),
        "a stopped server does not answer"
    );
    s3.start_again().await;
    assert_eq!(s3.endpoint(), endpoint);
    assert_eq!(get(&client, "kept", "a").await, "x");
}
