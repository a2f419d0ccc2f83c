//! What an error means for the runtime: one match, one table.
//!
//! An event that is refused alone again and again ends among the dead letters while others go through,
//! so only what is wrong with the event's own stream speaks against it; everything else is an error of
//! the whole delivery, which blames nobody. README.md prints the same table, and a test compares them.
//!
//! The server's own words are passed on only where Redis fixes them: the text of an unknown command
//! quotes the arguments, which can be a password or an event's data.

use std::error::Error;
use std::io;
use std::sync::Arc;

use outbox_sinks::{ErrorKind, SinkError};
use redis::{ErrorKind as Kind, RedisError, ServerError, ServerErrorKind as Known};

/// Everything that can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection, or it was lost.
    Io,
    /// No answer in time.
    Timeout,
    /// The TLS handshake failed.
    Tls,
    /// The client library can't use the settings.
    Settings,
    /// An answer that can't be read, or not the one that was due.
    Garbled,
    /// `NOAUTH`, `WRONGPASS`, or another answer that refuses the login.
    Login,
    /// `NOPERM`.
    Forbidden,
    /// `OOM`.
    OutOfMemory,
    /// `READONLY`, or the server says that it is a replica.
    ReadOnly,
    /// `MISCONF`: the server can't write to its disk.
    CannotPersist,
    /// `NOREPLICAS`.
    FewReplicas,
    /// `LOADING`, `MASTERDOWN`, `CLUSTERDOWN`, `TRYAGAIN`, `BUSY`.
    NotNow,
    /// The server has as many clients as it may.
    TooManyClients,
    /// `MOVED`, `ASK`, `CROSSSLOT`.
    Cluster,
    /// `EXECABORT` without a reason that is known.
    Aborted,
    /// The server does not know a command.
    UnknownCommand,
    /// `WRONGTYPE`.
    WrongType,
    /// The stream's ids have reached their end.
    Exhausted,
    /// The server would lose what it acknowledges.
    Loses(Loss),
    /// Any other answer.
    Other,
}

/// Why the server would lose entries that it has acknowledged, or may do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// No append-only log.
    NoLog,
    /// The log is synced less often than is wanted.
    SyncsLate,
    /// The log is not synced while it is rewritten.
    SyncsNotDuringRewrites,
    /// Streams may be evicted.
    Evicts,
    /// The server does not tell how it syncs.
    Untold,
}

/// What it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// This stream takes no entry, others may: the code of a refusal.
    Stream(&'static str),
    /// The whole delivery failed.
    Batch(ErrorKind),
}

const OUTAGE: Class = Class::Batch(ErrorKind::Unavailable);
const MISCONFIGURED: Class = Class::Batch(ErrorKind::Misconfigured);

/// The class of a failure, and what an operator can do about it.
pub(crate) const fn classify(failure: Failure) -> (Class, &'static str) {
    match failure {
        Failure::Io => (OUTAGE, "is the server up, and is this its address?"),
        Failure::Timeout => (
            OUTAGE,
            "the server did not answer in time; it is tried again",
        ),
        Failure::Tls => (
            MISCONFIGURED,
            "is this a port for TLS, and does the system trust the authority of its certificate?",
        ),
        Failure::Settings => (MISCONFIGURED, "check url"),
        Failure::Garbled => (
            MISCONFIGURED,
            "is something else than Redis answering at this address?",
        ),
        Failure::Login => (MISCONFIGURED, "check user and password"),
        Failure::Forbidden => (
            MISCONFIGURED,
            "allow the user the commands and streams that the README lists",
        ),
        Failure::OutOfMemory => (OUTAGE, "raise maxmemory, or let readers trim the streams"),
        Failure::ReadOnly => (
            OUTAGE,
            "a replica takes no writes: is it about to take over, or is url the primary's address?",
        ),
        Failure::CannotPersist => (OUTAGE, "is the server's disk full? its log says why"),
        Failure::FewReplicas => (
            OUTAGE,
            "too few replicas are connected for min-replicas-to-write",
        ),
        Failure::NotNow => (OUTAGE, "the server says not now; it is tried again"),
        Failure::TooManyClients => (OUTAGE, "raise maxclients, or close other connections"),
        Failure::Cluster => (
            MISCONFIGURED,
            "the server is part of a cluster, and this sink speaks to one server: choose one that owns the streams",
        ),
        Failure::Aborted => (OUTAGE, "nothing of the batch was stored; it is tried again"),
        Failure::UnknownCommand => (
            MISCONFIGURED,
            "Redis 5 or newer is needed, with none of its commands renamed",
        ),
        Failure::WrongType => (
            Class::Stream("WRONG_TYPE"),
            "delete or rename the key, or choose another stream",
        ),
        Failure::Exhausted => (
            Class::Stream("STREAM_EXHAUSTED"),
            "begin a new stream: rename this one",
        ),
        Failure::Loses(loss) => (MISCONFIGURED, keeping(loss)),
        Failure::Other => (MISCONFIGURED, "the server's log may say why"),
    }
}

/// How to make the server keep what it acknowledges.
const fn keeping(loss: Loss) -> &'static str {
    match loss {
        Loss::NoLog => {
            "set appendonly to yes, or durability to \"none\" if lost events do not matter"
        }
        Loss::SyncsLate => "set appendfsync to always, or durability to what the server does",
        Loss::SyncsNotDuringRewrites => "set no-appendfsync-on-rewrite to no",
        Loss::Evicts => "set maxmemory-policy to noeviction, so that no stream is dropped",
        Loss::Untold => {
            "allow the user CONFIG GET, or set durability to \"none\" if you know that the server keeps what it acknowledges"
        }
    }
}

/// A failure with what was said about it, which holds no secret and no payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) failure: Failure,
    pub(crate) told: Option<String>,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            told: None,
        }
    }
}

impl From<RedisError> for Trouble {
    fn from(error: RedisError) -> Self {
        let failure = match error.kind() {
            Kind::Io if error.is_timeout() => Failure::Timeout,
            Kind::Io if is_tls(&error) => Failure::Tls,
            Kind::Io | Kind::ClusterConnectionNotFound => Failure::Io,
            Kind::AuthenticationFailed => Failure::Login,
            Kind::InvalidClientConfig | Kind::Client | Kind::RESP3NotSupported => Failure::Settings,
            Kind::Parse | Kind::UnexpectedReturnType => Failure::Garbled,
            Kind::Server(_) | Kind::Extension => {
                return ServerError::try_from(error)
                    .map_or_else(|_| Failure::Other.into(), |error| Self::from(&error));
            }
            // Sentinels are never asked, and what a later version of the library may add is not known.
            Kind::MasterNameNotFoundBySentinel
            | Kind::NoValidReplicasFoundBySentinel
            | Kind::EmptySentinelList
            | _ => Failure::Other,
        };
        let told = matches!(failure, Failure::Io | Failure::Tls).then(|| error.to_string());
        Self { failure, told }
    }
}

impl From<&ServerError> for Trouble {
    fn from(error: &ServerError) -> Self {
        let text = error.details().unwrap_or_default();
        let failure = match error.kind() {
            Some(Known::ExecAbort) => return aborted(text),
            Some(Known::ResponseError) => plain(text),
            Some(Known::BusyLoading | Known::TryAgain | Known::ClusterDown | Known::MasterDown) => {
                Failure::NotNow
            }
            Some(Known::Moved | Known::Ask | Known::CrossSlot) => Failure::Cluster,
            Some(Known::ReadOnly) => Failure::ReadOnly,
            Some(Known::NoPerm) => Failure::Forbidden,
            Some(Known::NoScript | Known::NotBusy | Known::NoSub | _) => Failure::Other,
            None => coded(error.code()),
        };
        let may_quote = matches!(
            failure,
            Failure::Other | Failure::UnknownCommand | Failure::Login
        );
        let told = (!may_quote).then(|| format!("{} {text}", error.code()));
        Self { failure, told }
    }
}

/// The codes that the library does not know.
fn coded(code: &str) -> Failure {
    match code {
        "NOAUTH" | "WRONGPASS" => Failure::Login,
        "OOM" => Failure::OutOfMemory,
        "MISCONF" => Failure::CannotPersist,
        "NOREPLICAS" => Failure::FewReplicas,
        "BUSY" => Failure::NotNow,
        "WRONGTYPE" => Failure::WrongType,
        "NOPERM" => Failure::Forbidden,
        "READONLY" => Failure::ReadOnly,
        "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => Failure::NotNow,
        "MOVED" | "ASK" | "CROSSSLOT" => Failure::Cluster,
        _ => Failure::Other,
    }
}

/// The code `ERR` says nothing, so its text must.
fn plain(text: &str) -> Failure {
    if text.starts_with("unknown command") {
        Failure::UnknownCommand
    } else if text.starts_with("max number of clients") {
        Failure::TooManyClients
    } else if text.contains("exhausted the last possible ID") {
        Failure::Exhausted
    } else if text.contains("AUTH") || text.contains("invalid password") {
        Failure::Login
    } else {
        Failure::Other
    }
}

/// `EXECABORT` can quote the error that was the reason, which then says what it means.
fn aborted(text: &str) -> Trouble {
    let reason = text.split_once("because of: ").map(|(_, reason)| reason);
    let code = reason.and_then(|reason| reason.split_whitespace().next());
    match code.map(coded) {
        None | Some(Failure::Other | Failure::WrongType) => Failure::Aborted.into(),
        Some(failure) => Trouble {
            failure,
            told: reason.map(str::to_owned),
        },
    }
}

/// The library keeps an I/O error behind an `Arc`, and the error of TLS is inside that one.
fn is_tls(error: &RedisError) -> bool {
    let io = error
        .source()
        .and_then(<dyn Error>::downcast_ref::<Arc<dyn Error + Send + Sync>>)
        .and_then(|inner| inner.downcast_ref::<io::Error>());
    io.and_then(io::Error::get_ref)
        .is_some_and(|inner| inner.is::<rustls::Error>())
}

impl Trouble {
    /// As an error of the whole delivery; `verb` says what was tried.
    pub(crate) fn error(self, verb: impl Into<String>) -> SinkError {
        let (class, advice) = classify(self.failure);
        let kind = match class {
            Class::Batch(kind) => kind,
            // Where there is one stream for everything, its fault is the configuration's.
            Class::Stream(_) => ErrorKind::Misconfigured,
        };
        let error = SinkError::new(kind, verb).with_advice(advice);
        match self.told {
            Some(told) => error.with_source(told),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests;
