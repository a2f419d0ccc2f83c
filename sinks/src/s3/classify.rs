//! What a failed request means for the delivery: the one table from S3's answers and
//! the client's errors to what the runtime can do. `docs/sinks/s3.md` shows the same.

use std::error::Error;
use std::io;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ConnectorError, ProvideErrorMetadata, SdkError};

use crate::{ErrorKind, SinkError};

/// The longest text of the store's own that an error repeats, in characters.
const MAX_MESSAGE: usize = 300;

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Unavailable,
    Failed,
    /// The object, of many events: halves of the batch may pass.
    TooLarge,
    /// With what to do about it.
    Misconfigured(&'static str),
    /// The condition of a conditional put does not hold.
    Exists,
}

/// What a request came to, other than success.
#[derive(Debug)]
pub(super) enum Failure {
    /// A conditional put found an object of that name.
    Exists,
    Error(SinkError),
}

impl From<Failure> for SinkError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Error(error) => error,
            Failure::Exists => Self::failed("ask S3: the condition of a request does not hold"),
        }
    }
}

/// Classifies a failed request; `action` says what was tried, as "verb noun".
pub(super) fn classify<E>(action: &str, error: &SdkError<E, HttpResponse>) -> Failure
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let (meaning, detail) = match error {
        SdkError::ServiceError(service) => {
            let status = service.raw().status().as_u16();
            let code = service.err().code().unwrap_or_default();
            let detail = answer(status, code, service.err().message().unwrap_or_default());
            (of_answer(status, code), detail)
        }
        // An answer that is not S3's: cut off, or from a proxy in between.
        SdkError::ResponseError(response) => {
            let status = response.raw().status().as_u16();
            (
                of_answer(status, ""),
                answer(status, "", "an answer that can't be read"),
            )
        }
        SdkError::TimeoutError(_) => (Meaning::Unavailable, "timed out".to_owned()),
        SdkError::DispatchFailure(dispatch) => of_dispatch(dispatch.as_connector_error()),
        SdkError::ConstructionFailure(_) => (
            of_source(error).unwrap_or(Meaning::Misconfigured(SETTINGS)),
            innermost(error),
        ),
        // Variants of a later version of the client library.
        _ => (Meaning::Failed, innermost(error)),
    };
    let message = format!("{action}: {detail}");
    let built = match meaning {
        Meaning::Exists => return Failure::Exists,
        Meaning::Unavailable => SinkError::new(ErrorKind::Unavailable, message),
        Meaning::Failed => SinkError::new(ErrorKind::Failed, message),
        Meaning::TooLarge => SinkError::failed(message).with_advice(SIZE),
        Meaning::Misconfigured(advice) => SinkError::misconfigured(message, advice),
    };
    Failure::Error(match error.raw_response().and_then(retry_after) {
        Some(retry_after) => built.with_retry_after(retry_after),
        None => built,
    })
}

const BUCKET: &str = "create the bucket, or correct `bucket`; the sink does not create it";
const KEYS: &str =
    "check `access_key_id`, its secret and its session token, or the AWS credentials chain";
const RIGHTS: &str = "allow s3:PutObject and s3:GetObject on the prefix, s3:ListBucket on the bucket, and the \
     bucket's KMS key if it has one";
const REGION: &str =
    "set `region` to the bucket's region, and `endpoint` to that region's if one is set";
const CLOCK: &str =
    "set this machine's clock: S3 refuses requests that seem more than 15 minutes old";
const FEATURE: &str = "the store does not know a feature: try `conditional_put = false` and \
     `checksums = \"when-required\"`";
const KMS: &str = "check the bucket's KMS key and the right to use it";
const ENDPOINT: &str = "what answers there is not an S3 API: check `endpoint` and `path_style`";
const SIZE: &str =
    "lower `max_bytes`, or raise the size limit of the store or of a proxy before it";
const NO_CREDENTIALS: &str = "set `access_key_id` and `secret_access_key`, or give the process credentials by the AWS \
     chain (environment, profile, web identity, container, instance)";
const CERTIFICATE: &str =
    "install the system's CA certificates, or name the store's own CA in `ca_file`";
const SETTINGS: &str = "check `bucket`, `region` and `endpoint`";

/// The table of S3's answers. HEAD requests have no code, so the status alone must do.
fn of_answer(status: u16, code: &str) -> Meaning {
    of_code(code).unwrap_or_else(|| of_status(status))
}

/// What a code says for certain, whatever its status.
fn of_code(code: &str) -> Option<Meaning> {
    Some(match code {
        "SlowDown"
        | "ServiceUnavailable"
        | "InternalError"
        | "RequestTimeout"
        | "Throttling"
        | "ThrottlingException"
        | "RequestLimitExceeded"
        | "OperationAborted"
        | "ConditionalRequestConflict"
        | "BadDigest"
        | "InvalidDigest"
        | "XAmzContentSHA256Mismatch"
        | "IncompleteBody"
        | "QuotaExceeded"
        | "XMinioAdminBucketQuotaExceeded"
        | "XMinioStorageFull" => Meaning::Unavailable,
        // An object that a conditional put found, and that is gone again.
        "NoSuchKey" | "NotFound" => Meaning::Unavailable,
        "EntityTooLarge" | "MaxMessageLengthExceeded" => Meaning::TooLarge,
        "NoSuchBucket" | "InvalidBucketName" | "NoSuchAccessPoint" => {
            Meaning::Misconfigured(BUCKET)
        }
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "InvalidToken"
        | "TokenRefreshRequired"
        | "InvalidSecurity"
        | "NotSignedUp" => Meaning::Misconfigured(KEYS),
        "AccessDenied" | "AccountProblem" | "AllAccessDisabled" | "UnauthorizedAccess" => {
            Meaning::Misconfigured(RIGHTS)
        }
        "PermanentRedirect"
        | "TemporaryRedirect"
        | "Redirect"
        | "AuthorizationHeaderMalformed"
        | "IllegalLocationConstraintException"
        | "IncorrectEndpoint" => Meaning::Misconfigured(REGION),
        "RequestTimeTooSkewed" | "RequestExpired" => Meaning::Misconfigured(CLOCK),
        "NotImplemented" | "MissingContentLength" => Meaning::Misconfigured(FEATURE),
        "KMS.ThrottlingException"
        | "KMS.KMSInternalException"
        | "KMS.DependencyTimeoutException"
        | "KMS.KeyUnavailableException" => Meaning::Unavailable,
        code if code.starts_with("KMS.") => Meaning::Misconfigured(KMS),
        _ => return None,
    })
}

/// What a status says, without a code that says more.
const fn of_status(status: u16) -> Meaning {
    match status {
        412 => Meaning::Exists,
        // Another upload of that name is under way.
        409 => Meaning::Unavailable,
        404 | 405 | 407 => Meaning::Misconfigured(ENDPOINT),
        413 => Meaning::TooLarge,
        401 | 403 => Meaning::Misconfigured(RIGHTS),
        300..=399 => Meaning::Misconfigured(REGION),
        501 => Meaning::Misconfigured(FEATURE),
        408 | 429 | 500..=599 => Meaning::Unavailable,
        // Success with a body that can't be read: it is not known what happened.
        200..=299 => Meaning::Unavailable,
        // Said against this request, and the sink can't tell why.
        _ => Meaning::Failed,
    }
}

/// A request that got no answer. Missing credentials arrive here too, like an outage.
fn of_dispatch(error: Option<&ConnectorError>) -> (Meaning, String) {
    let Some(error) = error else {
        return (Meaning::Unavailable, "no answer".to_owned());
    };
    let detail = innermost(error);
    if let Some(meaning) = of_source(error) {
        return (meaning, detail);
    }
    let meaning = if error.is_io() || error.is_timeout() || error.as_other().is_some() {
        Meaning::Unavailable
    } else if error.is_user() {
        Meaning::Misconfigured(SETTINGS)
    } else {
        Meaning::Misconfigured(NO_CREDENTIALS)
    };
    (meaning, detail)
}

/// What a cause somewhere below says for certain.
fn of_source(error: &(dyn Error + 'static)) -> Option<Meaning> {
    causes(error).find_map(|cause| {
        if let Some(credentials) = cause.downcast_ref::<CredentialsError>() {
            return Some(match credentials {
                CredentialsError::ProviderTimedOut(_) | CredentialsError::ProviderError(_) => {
                    Meaning::Unavailable
                }
                // And whatever a later version of the library adds.
                CredentialsError::CredentialsNotLoaded(_)
                | CredentialsError::InvalidConfiguration(_)
                | CredentialsError::Unhandled(_)
                | _ => Meaning::Misconfigured(NO_CREDENTIALS),
            });
        }
        match cause.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(_)) => Some(Meaning::Misconfigured(CERTIFICATE)),
            _ => None,
        }
    })
}

/// An error and its causes. An `io::Error`'s `source` skips the error it holds.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>() {
            Some(io) => io.get_ref().map(|held| held as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

/// The text of the last cause, which says most: the ones above are "dispatch failure".
fn innermost(error: &(dyn Error + 'static)) -> String {
    let text = causes(error).last().map(ToString::to_string);
    shortened(&text.unwrap_or_default())
}

fn answer(status: u16, code: &str, message: &str) -> String {
    let code = if code.is_empty() { "HTTP status" } else { code };
    let message = shortened(message);
    let separator = if message.is_empty() { "" } else { ": " };
    format!("{code} ({status}){separator}{message}")
}

fn shortened(text: &str) -> String {
    let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    one_line.take(MAX_MESSAGE).collect()
}

/// Only the form in seconds: the other would need a clock.
fn retry_after(response: &HttpResponse) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests;
