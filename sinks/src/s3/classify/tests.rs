//! The table, row by row, and that the operator's guide shows the same.

use super::*;
use aws_sdk_s3::error::ErrorMetadata;
use aws_sdk_s3::operation::put_object::PutObjectError;
use aws_sdk_s3::primitives::SdkBody;

const GUIDE: &str = include_str!("../../../../docs/sinks/s3.md");

/// Status, code, kind (`None`: the object exists), and how the advice begins.
const TABLE: &[(u16, &str, Option<ErrorKind>, &str)] = &[
    (503, "SlowDown", Some(ErrorKind::Unavailable), ""),
    (503, "ServiceUnavailable", Some(ErrorKind::Unavailable), ""),
    (500, "InternalError", Some(ErrorKind::Unavailable), ""),
    (400, "RequestTimeout", Some(ErrorKind::Unavailable), ""),
    (400, "BadDigest", Some(ErrorKind::Unavailable), ""),
    (400, "IncompleteBody", Some(ErrorKind::Unavailable), ""),
    (507, "XMinioStorageFull", Some(ErrorKind::Unavailable), ""),
    (403, "QuotaExceeded", Some(ErrorKind::Unavailable), ""),
    (
        400,
        "XMinioAdminBucketQuotaExceeded",
        Some(ErrorKind::Unavailable),
        "",
    ),
    (
        400,
        "KMS.ThrottlingException",
        Some(ErrorKind::Unavailable),
        "",
    ),
    (
        409,
        "ConditionalRequestConflict",
        Some(ErrorKind::Unavailable),
        "",
    ),
    (409, "OperationAborted", Some(ErrorKind::Unavailable), ""),
    (409, "", Some(ErrorKind::Unavailable), ""),
    (408, "", Some(ErrorKind::Unavailable), ""),
    (429, "", Some(ErrorKind::Unavailable), ""),
    (500, "", Some(ErrorKind::Unavailable), ""),
    (502, "", Some(ErrorKind::Unavailable), ""),
    (504, "", Some(ErrorKind::Unavailable), ""),
    (404, "NoSuchKey", Some(ErrorKind::Unavailable), ""),
    (
        404,
        "NoSuchBucket",
        Some(ErrorKind::Misconfigured),
        "create the bucket",
    ),
    (
        400,
        "InvalidBucketName",
        Some(ErrorKind::Misconfigured),
        "create the bucket",
    ),
    (
        403,
        "InvalidAccessKeyId",
        Some(ErrorKind::Misconfigured),
        "check `access_key_id`",
    ),
    (
        403,
        "SignatureDoesNotMatch",
        Some(ErrorKind::Misconfigured),
        "check `access_key_id`",
    ),
    (
        400,
        "ExpiredToken",
        Some(ErrorKind::Misconfigured),
        "check `access_key_id`",
    ),
    (
        403,
        "AccessDenied",
        Some(ErrorKind::Misconfigured),
        "allow s3:PutObject",
    ),
    (
        403,
        "",
        Some(ErrorKind::Misconfigured),
        "allow s3:PutObject",
    ),
    (
        401,
        "",
        Some(ErrorKind::Misconfigured),
        "allow s3:PutObject",
    ),
    (
        301,
        "PermanentRedirect",
        Some(ErrorKind::Misconfigured),
        "set `region`",
    ),
    (
        400,
        "AuthorizationHeaderMalformed",
        Some(ErrorKind::Misconfigured),
        "set `region`",
    ),
    (301, "", Some(ErrorKind::Misconfigured), "set `region`"),
    (307, "", Some(ErrorKind::Misconfigured), "set `region`"),
    (
        403,
        "RequestTimeTooSkewed",
        Some(ErrorKind::Misconfigured),
        "set this machine's clock",
    ),
    (
        501,
        "NotImplemented",
        Some(ErrorKind::Misconfigured),
        "the store does not know",
    ),
    (
        501,
        "",
        Some(ErrorKind::Misconfigured),
        "the store does not know",
    ),
    (
        400,
        "KMS.DisabledException",
        Some(ErrorKind::Misconfigured),
        "check the bucket's KMS",
    ),
    (
        404,
        "",
        Some(ErrorKind::Misconfigured),
        "what answers there",
    ),
    (
        405,
        "MethodNotAllowed",
        Some(ErrorKind::Misconfigured),
        "what answers there",
    ),
    (
        407,
        "",
        Some(ErrorKind::Misconfigured),
        "what answers there",
    ),
    (
        400,
        "EntityTooLarge",
        Some(ErrorKind::Failed),
        "lower `max_bytes`",
    ),
    (413, "", Some(ErrorKind::Failed), "lower `max_bytes`"),
    (400, "InvalidRequest", Some(ErrorKind::Failed), ""),
    (400, "", Some(ErrorKind::Failed), ""),
    (412, "PreconditionFailed", None, ""),
    (412, "", None, ""),
];

fn answered(status: u16, code: &str) -> SdkError<PutObjectError, HttpResponse> {
    let mut metadata = ErrorMetadata::builder();
    if !code.is_empty() {
        metadata = metadata.code(code);
    }
    let raw = HttpResponse::new(status.try_into().unwrap(), SdkBody::empty());
    SdkError::service_error(PutObjectError::generic(metadata.build()), raw)
}

fn dispatch(error: ConnectorError) -> SinkError {
    let error: SdkError<PutObjectError, HttpResponse> = SdkError::dispatch_failure(error);
    classify("put object x", &error).into()
}

#[test]
fn every_answer_has_its_kind_and_its_advice() {
    for (status, code, kind, advice) in TABLE {
        match (classify("put object x", &answered(*status, code)), kind) {
            (Failure::Exists, None) => {}
            (Failure::Error(error), Some(kind)) => {
                assert_eq!(error.kind(), *kind, "{status} {code}");
                let given = error.advice().unwrap_or_default();
                assert!(given.starts_with(advice), "{status} {code}: {given}");
                assert_eq!(given.is_empty(), advice.is_empty(), "{status} {code}");
            }
            (failure, kind) => panic!("{status} {code}: {failure:?}, not {kind:?}"),
        }
    }
}

/// The rows of the guide's error table: what S3 says, and the kind.
fn guide() -> Vec<(Vec<&'static str>, &'static str)> {
    let table = GUIDE
        .split("## Errors")
        .nth(1)
        .expect("the guide has a section on errors");
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        // Every second part of a text split at backticks stands between two of them.
        (cells[1].split('`').skip(1).step_by(2).collect(), cells[2])
    })
    .collect()
}

#[test]
fn the_guide_shows_the_same_table() {
    let guide = guide();
    for (status, code, kind, _) in TABLE {
        let said = if code.is_empty() {
            status.to_string()
        } else {
            (*code).to_owned()
        };
        let rows: Vec<_> = guide
            .iter()
            .filter(|(codes, _)| codes.contains(&said.as_str()))
            .collect();
        let [(_, shown)] = rows.as_slice() else {
            panic!("`{said}` is in {} rows of the guide's table", rows.len());
        };
        let kind = kind.map_or("delivered", ErrorKind::as_str);
        assert_eq!(*shown, kind, "{said}");
    }
    for (said, shown) in guide
        .iter()
        .flat_map(|(codes, kind)| codes.iter().map(move |code| (code, kind)))
    {
        let meaning = match said.parse() {
            Ok(status) => of_answer(status, ""),
            Err(_) => of_answer(400, said),
        };
        let kind = match meaning {
            Meaning::Unavailable => "unavailable",
            Meaning::Failed | Meaning::TooLarge => "failed",
            Meaning::Misconfigured(_) => "misconfigured",
            Meaning::Exists => "delivered",
        };
        // These two names say nothing without their status.
        if !matches!(*said, "PreconditionFailed" | "MethodNotAllowed") {
            assert_eq!(kind, *shown, "{said}");
        }
    }
}

#[test]
fn a_request_without_an_answer_is_an_outage() {
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    assert_eq!(
        dispatch(ConnectorError::io(refused.into())).kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(
        dispatch(ConnectorError::timeout("t".into())).kind(),
        ErrorKind::Unavailable
    );
    let timeout: SdkError<PutObjectError, HttpResponse> = SdkError::timeout_error("late");
    assert_eq!(
        SinkError::from(classify("x", &timeout)).kind(),
        ErrorKind::Unavailable
    );
}

#[test]
fn missing_credentials_need_a_person_and_a_credentials_service_that_is_down_does_not() {
    let missing = CredentialsError::not_loaded("none in the chain");
    let error = dispatch(ConnectorError::other(missing.into(), None));
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.advice().unwrap().contains("access_key_id"));
    let down = CredentialsError::provider_timed_out(Duration::from_secs(1));
    assert_eq!(
        dispatch(ConnectorError::other(down.into(), None)).kind(),
        ErrorKind::Unavailable
    );
}

#[test]
fn a_certificate_that_is_not_trusted_needs_a_person() {
    let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
    let error = dispatch(ConnectorError::io(io::Error::other(tls).into()));
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.advice().unwrap().contains("ca_file"));
}

#[test]
fn the_stores_wish_to_be_left_alone_is_passed_on() {
    let mut raw = HttpResponse::new(503.try_into().unwrap(), SdkBody::empty());
    raw.headers_mut().insert("retry-after", "17");
    let slow = PutObjectError::generic(ErrorMetadata::builder().code("SlowDown").build());
    let error = SinkError::from(classify("x", &SdkError::service_error(slow, raw)));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(17)));
}

#[test]
fn the_stores_own_text_is_cut_short_and_kept_on_one_line() {
    let message = format!("a\nb{}", "x".repeat(5_000));
    let text = answer(400, "InvalidRequest", &message);
    assert!(text.starts_with("InvalidRequest (400): a b"), "{text}");
    assert!(text.len() < 400);
}
