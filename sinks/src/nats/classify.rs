//! What an error of NATS means for the runtime: one match, one table.
//!
//! An event that is refused alone again and again ends among the dead letters while
//! others go through, so only JetStream's answers about a message's size speak against an
//! event. The sink writes every header itself, so all other answers are about the stream.
//!
//! The guide `docs/sinks/nats.md` prints the same table, and a test compares them.

use std::error::Error;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamByNameError, GetStreamByNameErrorKind,
    GetStreamError, GetStreamErrorKind, PublishError, PublishErrorKind, RequestError,
    RequestErrorKind,
};
use async_nats::{ConnectError, ConnectErrorKind, jetstream};

use crate::{ErrorKind, SinkError};

/// Everything that can go wrong, as the client library and the server report it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Failure {
    /// Connecting failed.
    Connect(ConnectErrorKind),
    /// The TLS handshake failed on a certificate, which the library reports as I/O.
    Certificate,
    /// The server says that it takes no payloads at all.
    NoPayload,
    /// A publish failed without an answer of JetStream.
    Publish(PublishErrorKind),
    /// An answer to a publish that can't be read.
    Garbled,
    /// JetStream answered with an error: HTTP-like status and its own code.
    Answer { status: usize, code: ErrorCode },
    /// A request to JetStream's API failed without an answer.
    Request(RequestErrorKind),
    /// The server complained about missing permissions.
    Forbidden,
    /// JetStream says that no stream takes the subject.
    NoStream,
    /// A stream takes the subject, but nobody answers for it.
    NoLeader,
    /// The configured stream does not take our subjects.
    OtherSubjects,
    /// The stream is configured not to acknowledge.
    NoAcks,
}

/// What it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// This event can never be sent.
    Undeliverable,
    /// The stream finds this event too large. If its settings say so too it can never be
    /// sent, otherwise it was refused.
    TooLarge,
    /// This event was not taken, and the others may be.
    Refused,
    /// The whole delivery failed.
    Batch(ErrorKind),
}

impl Failure {
    pub(super) fn of_connect(error: &ConnectError) -> Self {
        let kind = error.kind();
        if kind == ConnectErrorKind::Io && find::<rustls::Error>(error).is_some() {
            Self::Certificate
        } else {
            Self::Connect(kind)
        }
    }

    pub(super) fn of_publish(error: &PublishError) -> Self {
        let kind = error.kind();
        if kind != PublishErrorKind::Other {
            Self::Publish(kind)
        } else if find::<serde_json::Error>(error).is_some() {
            Self::Garbled
        } else {
            Self::answer_in(error).unwrap_or(Self::Publish(kind))
        }
    }

    pub(super) fn of_get_stream(error: &GetStreamError) -> Self {
        match error.kind() {
            GetStreamErrorKind::JetStream(answer) => Self::of_answer(&answer),
            GetStreamErrorKind::Request => Self::request_in(error),
            GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => Self::NoStream,
        }
    }

    pub(super) fn of_stream_by_subject(error: &GetStreamByNameError) -> Self {
        match error.kind() {
            GetStreamByNameErrorKind::JetStream(answer) => Self::of_answer(&answer),
            GetStreamByNameErrorKind::Request => {
                Self::answer_in(error).unwrap_or_else(|| Self::request_in(error))
            }
            GetStreamByNameErrorKind::NotFound | GetStreamByNameErrorKind::InvalidSubject => {
                Self::NoStream
            }
        }
    }

    pub(super) fn of_create_stream(error: &CreateStreamError) -> Self {
        match error.kind() {
            CreateStreamErrorKind::JetStream(answer) => Self::of_answer(&answer),
            CreateStreamErrorKind::TimedOut => Self::Request(RequestErrorKind::TimedOut),
            CreateStreamErrorKind::JetStreamUnavailable => {
                Self::Request(RequestErrorKind::NoResponders)
            }
            CreateStreamErrorKind::Response | CreateStreamErrorKind::ResponseParse => {
                Self::Request(RequestErrorKind::Other)
            }
            CreateStreamErrorKind::EmptyStreamName
            | CreateStreamErrorKind::InvalidStreamName
            | CreateStreamErrorKind::DomainAndExternalSet
            | CreateStreamErrorKind::NotFound => Self::NoStream,
        }
    }

    pub(super) fn of_answer(answer: &jetstream::Error) -> Self {
        match answer.error_code() {
            ErrorCode::STREAM_NOT_FOUND => Self::NoStream,
            code => Self::Answer {
                status: answer.code(),
                code,
            },
        }
    }

    fn answer_in(error: &(dyn Error + 'static)) -> Option<Self> {
        find::<jetstream::Error>(error).map(Self::of_answer)
    }

    fn request_in(error: &(dyn Error + 'static)) -> Self {
        let kind = find::<RequestError>(error).map(|error| error.kind());
        Self::Request(kind.unwrap_or(RequestErrorKind::Other))
    }
}

const OUTAGE: Class = Class::Batch(ErrorKind::Unavailable);
const MISCONFIGURED: Class = Class::Batch(ErrorKind::Misconfigured);
const FAILED: Class = Class::Batch(ErrorKind::Failed);

/// The class of a failure, and what an operator can do about it.
pub(super) fn classify(failure: Failure) -> (Class, &'static str) {
    match failure {
        Failure::Connect(kind) => connect(kind),
        Failure::Certificate => (
            MISCONFIGURED,
            "check the tls table: the authority, the server's name in its certificate, the client's certificate",
        ),
        Failure::NoPayload => (
            MISCONFIGURED,
            "set the server's max_payload; is there something in between that drops it from the greeting?",
        ),
        Failure::Publish(kind) => publish(kind),
        Failure::Garbled => (
            MISCONFIGURED,
            "is something else than JetStream answering on this subject?",
        ),
        Failure::Answer { status, code } => answer(status, code),
        Failure::Request(RequestErrorKind::NoResponders) => (
            OUTAGE,
            "JetStream has no leader, or is not enabled for this account",
        ),
        Failure::Request(RequestErrorKind::TimedOut) => {
            (OUTAGE, "JetStream's API did not answer; it is tried again")
        }
        Failure::Request(RequestErrorKind::InvalidSubject | RequestErrorKind::Other) => {
            (OUTAGE, "the connection was lost; it is tried again")
        }
        Failure::Forbidden => (
            MISCONFIGURED,
            "allow the user to publish to the events' subjects and to $JS.API.STREAM.>, and to subscribe to _INBOX.>",
        ),
        Failure::NoStream => (MISCONFIGURED, "create the stream, or set create_stream"),
        Failure::NoLeader => (
            OUTAGE,
            "the stream has no leader at the moment; it is tried again",
        ),
        Failure::OtherSubjects => (
            MISCONFIGURED,
            "change the stream's subjects, or subject or stream here",
        ),
        Failure::NoAcks => (MISCONFIGURED, "set no_ack of the stream to false"),
    }
}

fn connect(kind: ConnectErrorKind) -> (Class, &'static str) {
    match kind {
        ConnectErrorKind::Io | ConnectErrorKind::TimedOut | ConnectErrorKind::MaxReconnects => {
            (OUTAGE, "is the server up, and is this its address?")
        }
        ConnectErrorKind::Dns => (OUTAGE, "is the server's name right, and does DNS answer?"),
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => (
            MISCONFIGURED,
            "check user and password, token, nkey or credentials",
        ),
        ConnectErrorKind::Tls => (MISCONFIGURED, "check the files of the tls table"),
        ConnectErrorKind::ServerParse => (MISCONFIGURED, "check servers"),
    }
}

fn publish(kind: PublishErrorKind) -> (Class, &'static str) {
    match kind {
        PublishErrorKind::MaxPayloadExceeded => {
            (Class::Undeliverable, "raise the server's max_payload")
        }
        PublishErrorKind::StreamNotFound => classify(Failure::NoStream),
        PublishErrorKind::TimedOut => (
            OUTAGE,
            "no acknowledgement in time; the same id is sent again",
        ),
        PublishErrorKind::BrokenPipe | PublishErrorKind::Other => {
            classify(Failure::Request(RequestErrorKind::Other))
        }
        // No expectation is sent and the window is ours, so these would be a bug.
        PublishErrorKind::WrongLastMessageId
        | PublishErrorKind::WrongLastSequence
        | PublishErrorKind::MaxAckPending => (FAILED, "please report this"),
    }
}

fn answer(status: usize, code: ErrorCode) -> (Class, &'static str) {
    match code {
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM => {
            (Class::TooLarge, "raise the stream's max_msg_size")
        }
        ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => (
            Class::Refused,
            "shorten the fields that become headers, the id above all",
        ),
        ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT => (
            OUTAGE,
            "an earlier copy is still being stored; it is tried again",
        ),
        ErrorCode::STREAM_STORE_FAILED => (
            OUTAGE,
            "the stream is full or its disk is: raise its limits, or let its consumers catch up",
        ),
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::MEMORY_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES => (
            OUTAGE,
            "raise the account's or the server's JetStream limits",
        ),
        ErrorCode::STREAM_NOT_MATCH => classify(Failure::OtherSubjects),
        ErrorCode::STREAM_SEALED => (MISCONFIGURED, "the stream is sealed: write to another one"),
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => (
            MISCONFIGURED,
            "enable JetStream for the server and this account",
        ),
        ErrorCode::STREAM_SUBJECT_OVERLAP => (
            MISCONFIGURED,
            "another stream takes these subjects: name it as stream, or change create_stream.subjects",
        ),
        _ if status >= 500 || status == 429 => {
            (OUTAGE, "JetStream says not now; it is tried again")
        }
        _ => (
            MISCONFIGURED,
            "the stream's settings do not go with such messages: the server's text says why",
        ),
    }
}

/// The failure as an error of the whole delivery; `verb` says what was tried.
pub(super) fn error(failure: Failure, verb: impl Into<String>) -> SinkError {
    let (class, advice) = classify(failure);
    let kind = match class {
        Class::Batch(kind) => kind,
        // Asked of the API rather than of one event, a refusal is the request's own fault.
        Class::Undeliverable | Class::TooLarge | Class::Refused => ErrorKind::Misconfigured,
    };
    SinkError::new(kind, verb).with_advice(advice)
}

/// The first error of this type among an error and its causes, also inside an I/O error.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
            .and_then(|inner| inner.downcast_ref());
        if let Some(found) = error.downcast_ref().or(inner) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests;
