//! The stream exists and takes our subjects.
//!
//! Asked when a connection is opened, so that a missing stream is a clear sentence
//! and not a delivery that fails; and asked again when nobody answered a publish,
//! which looks the same for a missing stream and for one without a leader.

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::Config as StreamConfig;

use super::checked::Config;
use super::classify::{Failure, error};
use super::connection::Connection;
use super::subject;
use crate::SinkError;

/// Whether a missing stream may be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Create it, if the settings say how.
    Create,
    /// Change nothing.
    Report,
}

/// Checks the stream that is configured, or that any stream takes the subjects.
///
/// # Errors
/// What is wrong with it, or that JetStream does not answer.
pub(super) async fn check(
    connection: &Connection,
    config: &Config,
    missing: Missing,
) -> Result<(), SinkError> {
    let checked = match &config.stream {
        Some(name) => named(&connection.jetstream, name, config, missing).await,
        None => any(&connection.jetstream, config).await,
    };
    checked.map_err(|error| connection.explain(error))
}

async fn named(
    jetstream: &Context,
    name: &str,
    config: &Config,
    missing: Missing,
) -> Result<(), SinkError> {
    let verb = || format!("look up stream `{name}`");
    let found = match jetstream.get_stream(name).await {
        Ok(stream) => stream.cached_info().config.clone(),
        Err(cause) => match (Failure::of_get_stream(&cause), &config.create) {
            (Failure::NoStream, Some(create)) if missing == Missing::Create => {
                let created = jetstream
                    .create_stream(create.clone())
                    .await
                    .map_err(|cause| {
                        error(
                            Failure::of_create_stream(&cause),
                            format!("create stream `{name}`"),
                        )
                        .with_source(cause)
                    })?;
                created.cached_info().config.clone()
            }
            (Failure::NoStream, Some(_)) => return Ok(()),
            (failure, _) => return Err(error(failure, verb()).with_source(cause)),
        },
    };
    suits(&found, config).map_err(|failure| error(failure, format!("use stream `{name}`")))
}

fn suits(stream: &StreamConfig, config: &Config) -> Result<(), Failure> {
    let ours = subject::pattern(&config.subject);
    if stream.no_ack {
        Err(Failure::NoAcks)
    } else if !stream
        .subjects
        .iter()
        .any(|theirs| subject::overlap(theirs, &ours))
    {
        Err(Failure::OtherSubjects)
    } else {
        Ok(())
    }
}

async fn any(jetstream: &Context, config: &Config) -> Result<(), SinkError> {
    let pattern = subject::pattern(&config.subject);
    match jetstream.stream_by_subject(pattern.as_str()).await {
        Ok(_name) => Ok(()),
        Err(cause) => {
            let verb = format!("find a stream that takes `{pattern}`");
            Err(error(Failure::of_stream_by_subject(&cause), verb).with_source(cause))
        }
    }
}

/// Why nobody answered a publish to this subject.
pub(super) async fn why_silent(jetstream: &Context, subject: &str) -> Failure {
    match jetstream.stream_by_subject(subject).await {
        Ok(_name) => Failure::NoLeader,
        Err(cause) => Failure::of_stream_by_subject(&cause),
    }
}

/// The largest message, in bytes, that the stream of this subject takes, if it says.
pub(super) async fn max_message_size(jetstream: &Context, subject: &str) -> Option<i32> {
    let name = jetstream.stream_by_subject(subject).await.ok()?;
    let stream = jetstream.get_stream(name).await.ok()?;
    Some(stream.cached_info().config.max_message_size)
}
