//! Why a whole delivery failed, in the few kinds the runtime can act on.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// What kind of failure it was: one for each thing the runtime can do about it.
///
/// ```
/// use std::io;
/// use outbox_sinks::ErrorKind;
///
/// fn classify(error: &io::Error) -> ErrorKind {
///     match error.kind() {
///         io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => ErrorKind::Misconfigured,
///         io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut => ErrorKind::Unavailable,
///         _ => ErrorKind::Failed,
///     }
/// }
/// assert_eq!(classify(&io::ErrorKind::TimedOut.into()).to_string(), "unavailable");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The destination can't be reached or says "not now". Nothing is known
    /// against any event: the same batch is tried again, without limit.
    Unavailable,
    /// The batch failed and the sink can't say why. Tried again, with
    /// growing pauses and in ever smaller parts; an event that fails alone counts as
    /// refused.
    Failed,
    /// It needs a person: bad credentials, no such topic, bucket or stream. Tried
    /// at the longest interval; no event is blamed.
    Misconfigured,
    /// Somebody newer owns the destination. The lease is given up.
    Fenced,
}

impl ErrorKind {
    /// The name as logs, status and the cursor row show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
            Self::Misconfigured => "misconfigured",
            Self::Fenced => "fenced",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed delivery, probe or opening.
///
/// Any plain error becomes one of kind [`ErrorKind::Failed`] through `?`, so this
/// type is, like `anyhow::Error`, not itself a [`std::error::Error`].
/// Its text is logged, stored and shown: it holds no payload and no secret.
///
/// ```
/// use outbox_sinks::{ErrorKind, SinkError};
/// fn connect() -> Result<(), SinkError> {
///     std::net::TcpStream::connect("127.0.0.1:1")
///         .map_err(|e| SinkError::unavailable("connect to the warehouse").with_source(e))?;
///     Ok(())
/// }
/// assert_eq!(connect().unwrap_err().kind(), ErrorKind::Unavailable);
/// ```
pub struct SinkError {
    kind: ErrorKind,
    message: String,
    advice: Option<String>,
    retry_after: Option<Duration>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl SinkError {
    /// An error of this kind; the message says what was tried, as "verb noun".
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            advice: None,
            retry_after: None,
            source: None,
        }
    }

    /// The destination can't be reached or says "not now".
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// The batch failed and the sink can't say why.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// A person must act; `advice` tells what to do.
    pub fn misconfigured(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            advice: Some(advice.into()),
            ..Self::new(ErrorKind::Misconfigured, message)
        }
    }

    /// Somebody newer owns the destination.
    pub fn fenced(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Fenced, message)
    }

    /// Adds what the operator can do.
    #[must_use]
    pub fn with_advice(self, advice: impl Into<String>) -> Self {
        Self {
            advice: Some(advice.into()),
            ..self
        }
    }

    /// Adds how long the destination asked to be left alone.
    #[must_use]
    pub fn with_retry_after(self, retry_after: Duration) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..self
        }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }

    /// What the runtime will do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What the operator can do, if the sink knows.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// How long the destination asked to be left alone.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The cause, if there is one.
    #[must_use]
    pub fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }

    /// The message with all its causes on one line, for a log or the cursor row.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut next = self.source();
        while let Some(cause) = next {
            let cause_text = cause.to_string();
            // Many libraries repeat the cause in their own text.
            if !text.ends_with(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            next = cause.source();
        }
        text
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for SinkError {
    fn from(error: E) -> Self {
        Self::failed("use the destination").with_source(error)
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.chain())?;
        match &self.advice {
            Some(advice) => write!(f, " ({advice})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_plain_error_becomes_a_failed_delivery() {
        fn deliver() -> Result<(), SinkError> {
            let _number: i32 = "x".parse()?;
            Ok(())
        }
        let error = deliver().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert_eq!(
            error.chain(),
            "use the destination: invalid digit found in string"
        );
    }

    #[test]
    fn display_prints_only_itself_and_debug_the_advice() {
        let error = SinkError::misconfigured("find topic `orders`", "create the topic");
        assert_eq!(error.to_string(), "find topic `orders`");
        assert_eq!(
            format!("{error:?}"),
            "misconfigured: find topic `orders` (create the topic)"
        );
    }
}
