//! How S3 is reached: region, endpoint, credentials, TLS, timeouts.
//!
//! The client never retries by itself (the runtime's backoff does), never waits
//! without a limit, and always verifies certificates.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_credential_types::Credentials;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    Builder, Region, RequestChecksumCalculation, ResponseChecksumValidation, SharedHttpClient,
};
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::SinkError;

/// A host that does not answer a connection attempt within this is away.
const MAX_CONNECT: Duration = Duration::from_secs(5);

/// Which requests carry the newer checksums (CRC32 and others in headers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Checksums {
    /// Only those that S3 demands them for. Other stores often refuse the headers.
    WhenRequired,
    /// All that may.
    WhenSupported,
}

/// What it takes to reach the bucket.
#[derive(Clone)]
pub(super) struct Access {
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
    pub(super) path_style: bool,
    pub(super) checksums: Checksums,
    /// Checked certificate authorities, beside the system's.
    pub(super) ca_pem: Option<Vec<u8>>,
    /// `None` for the AWS credentials chain.
    pub(super) credentials: Option<Credentials>,
}

impl Access {
    /// Makes a client whose requests take at most `timeout` each. Without a region or
    /// credentials in the settings, the AWS environment is asked for them.
    pub(super) async fn client(&self, timeout: Duration) -> Result<Client, SinkError> {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(MAX_CONNECT.min(timeout / 2))
            .operation_attempt_timeout(timeout)
            .operation_timeout(timeout)
            .build();
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .http_client(self.http_client()?)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            // The timeouts above already bound a stream that stalls.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(credentials) = &self.credentials {
            loader = loader.credentials_provider(credentials.clone());
        }
        let shared = Box::pin(loader.load()).await;
        if shared.region().is_none() {
            return Err(SinkError::misconfigured(
                "find the bucket's region",
                "set `region`, or AWS_REGION in the environment",
            ));
        }
        let (request, response) = match self.checksums {
            Checksums::WhenRequired => (
                RequestChecksumCalculation::WhenRequired,
                ResponseChecksumValidation::WhenRequired,
            ),
            Checksums::WhenSupported => (
                RequestChecksumCalculation::WhenSupported,
                ResponseChecksumValidation::WhenSupported,
            ),
        };
        let mut config = Builder::from(&shared)
            .force_path_style(self.path_style)
            .request_checksum_calculation(request)
            .response_checksum_validation(response);
        // Only for S3: the credentials chain talks to AWS's own endpoints.
        if let Some(endpoint) = &self.endpoint {
            config = config.endpoint_url(endpoint);
        }
        Ok(Client::from_conf(config.build()))
    }

    fn http_client(&self) -> Result<SharedHttpClient, SinkError> {
        let mut trusted = TrustStore::default();
        if let Some(pem) = &self.ca_pem {
            trusted.add_pem_certificate(pem.clone());
        }
        let tls = TlsContext::builder()
            .with_trust_store(trusted)
            .build()
            .map_err(|error| SinkError::failed("set up TLS").with_source(error))?;
        Ok(aws_smithy_http_client::Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .tls_context(tls)
            .build_https())
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("region", &self.region)
            .field("endpoint", &self.endpoint)
            .field("path_style", &self.path_style)
            .field("checksums", &self.checksums)
            .finish_non_exhaustive()
    }
}

/// Reads a PEM file and makes sure that there is a usable certificate in it: the HTTP
/// client would panic on a bad one.
pub(super) fn read_certificates(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let pem = std::fs::read(path).map_err(|error| format!("read {shown}: {error}"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        certificate
            .map_err(|error| error.to_string())
            .and_then(|certificate| roots.add(certificate).map_err(|error| error.to_string()))
            .map_err(|error| format!("read {shown}: {error}"))?;
    }
    if roots.is_empty() {
        return Err(format!("{shown} holds no certificate in PEM form"));
    }
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_usable_certificate_is_a_problem_and_no_panic() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in [
            "",
            "hello",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
        ] {
            std::fs::write(file.path(), text).unwrap();
            assert!(read_certificates(file.path()).is_err(), "{text}");
        }
    }
}
