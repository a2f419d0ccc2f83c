//! The table, and that the operator's guide prints the same one.

use super::*;

const GUIDE: &str = include_str!("../../../../docs/sinks/nats.md");

const fn jetstream(status: usize, code: ErrorCode) -> Failure {
    Failure::Answer { status, code }
}

use ConnectErrorKind as C;
use PublishErrorKind as P;
use RequestErrorKind as R;

/// What the guide calls it, the failures, and their class.
const TABLE: &[(&str, &[Failure], &str)] = &[
    (
        "server not reached",
        &[
            Failure::Connect(C::Io),
            Failure::Connect(C::TimedOut),
            Failure::Connect(C::MaxReconnects),
        ],
        "unavailable",
    ),
    (
        "server's name not found",
        &[Failure::Connect(C::Dns)],
        "unavailable",
    ),
    (
        "user, password, token, nkey or credentials refused",
        &[
            Failure::Connect(C::Authentication),
            Failure::Connect(C::AuthorizationViolation),
        ],
        "misconfigured",
    ),
    (
        "a certificate is not accepted",
        &[Failure::Certificate],
        "misconfigured",
    ),
    (
        "a certificate's file can't be used",
        &[Failure::Connect(C::Tls)],
        "misconfigured",
    ),
    (
        "address not understood",
        &[Failure::Connect(C::ServerParse)],
        "misconfigured",
    ),
    (
        "server whose greeting has no `max_payload`",
        &[Failure::NoPayload],
        "misconfigured",
    ),
    (
        "connection lost",
        &[
            Failure::Publish(P::BrokenPipe),
            Failure::Publish(P::Other),
            Failure::Request(R::Other),
            Failure::Request(R::InvalidSubject),
        ],
        "unavailable",
    ),
    (
        "no acknowledgement within `ack_timeout`",
        &[Failure::Publish(P::TimedOut)],
        "unavailable",
    ),
    (
        "JetStream's API does not answer",
        &[Failure::Request(R::TimedOut)],
        "unavailable",
    ),
    (
        "nobody answers for JetStream",
        &[Failure::Request(R::NoResponders)],
        "unavailable",
    ),
    (
        "stream without a leader",
        &[Failure::NoLeader],
        "unavailable",
    ),
    (
        "no stream takes the subject",
        &[Failure::NoStream, Failure::Publish(P::StreamNotFound)],
        "misconfigured",
    ),
    (
        "stream takes other subjects (10060)",
        &[
            Failure::OtherSubjects,
            jetstream(400, ErrorCode::STREAM_NOT_MATCH),
        ],
        "misconfigured",
    ),
    (
        "subjects taken by another stream (10065)",
        &[jetstream(400, ErrorCode::STREAM_SUBJECT_OVERLAP)],
        "misconfigured",
    ),
    (
        "stream without acknowledgements",
        &[Failure::NoAcks],
        "misconfigured",
    ),
    (
        "stream sealed (10109)",
        &[jetstream(400, ErrorCode::STREAM_SEALED)],
        "misconfigured",
    ),
    (
        "JetStream not enabled (10039, 10076)",
        &[
            jetstream(503, ErrorCode::JETSTREAM_NOT_ENABLED),
            jetstream(503, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT),
        ],
        "misconfigured",
    ),
    (
        "permissions violation",
        &[Failure::Forbidden],
        "misconfigured",
    ),
    (
        "stream full, `discard = new` (10077)",
        &[jetstream(503, ErrorCode::STREAM_STORE_FAILED)],
        "unavailable",
    ),
    (
        "JetStream limits reached (10002, 10023, 10028, 10047)",
        &[
            jetstream(400, ErrorCode::ACCOUNT_RESOURCES_EXCEEDED),
            jetstream(503, ErrorCode::INSUFFICIENT_RESOURCES),
            jetstream(500, ErrorCode::MEMORY_RESOURCES_EXCEEDED),
            jetstream(500, ErrorCode::STORAGE_RESOURCES_EXCEEDED),
        ],
        "unavailable",
    ),
    (
        "any other answer 429 or 5xx",
        &[
            jetstream(429, ErrorCode::STREAM_TOO_MANY_REQUESTS),
            jetstream(503, ErrorCode(1)),
        ],
        "unavailable",
    ),
    (
        "message over the server's `max_payload`",
        &[Failure::Publish(P::MaxPayloadExceeded)],
        "undeliverable",
    ),
    (
        "message over the stream's `max_msg_size` (10054)",
        &[jetstream(400, ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM)],
        "undeliverable or refused",
    ),
    (
        "headers over JetStream's 64 KiB (10097)",
        &[jetstream(400, ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM)],
        "refused",
    ),
    (
        "repetition while the first copy is being stored (10158)",
        &[jetstream(409, ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT)],
        "unavailable",
    ),
    (
        "any other answer 4xx",
        &[
            jetstream(400, ErrorCode(1)),
            jetstream(400, ErrorCode::MESSAGE_TTL_DISABLED),
            jetstream(404, ErrorCode(1)),
        ],
        "misconfigured",
    ),
    (
        "an answer that is not JetStream's",
        &[Failure::Garbled],
        "misconfigured",
    ),
    (
        "wrong last sequence, window overrun",
        &[
            Failure::Publish(P::WrongLastMessageId),
            Failure::Publish(P::WrongLastSequence),
            Failure::Publish(P::MaxAckPending),
        ],
        "failed",
    ),
];

#[test]
fn the_guide_has_the_same_table() {
    for &(name, failures, expected) in TABLE {
        for &failure in failures {
            let (class, advice) = classify(failure);
            let class = match class {
                Class::Undeliverable => "undeliverable",
                Class::TooLarge => "undeliverable or refused",
                Class::Refused => "refused",
                Class::Batch(kind) => kind.as_str(),
            };
            assert_eq!(class, expected, "{name}: {failure:?}");
            let row = format!("| {name} | {class} | {advice} |");
            assert!(GUIDE.contains(&row), "the guide lacks this row:\n{row}");
        }
    }
}

#[test]
fn a_certificate_error_inside_an_io_error_is_found() {
    let tls = rustls::Error::NoCertificatesPresented;
    let error = ConnectError::from(std::io::Error::new(std::io::ErrorKind::InvalidData, tls));
    assert_eq!(Failure::of_connect(&error), Failure::Certificate);
    let plain = ConnectError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
    assert_eq!(
        Failure::of_connect(&plain),
        Failure::Connect(ConnectErrorKind::Io)
    );
}
