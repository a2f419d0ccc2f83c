//! One attempt at a delivery: bounded in time, and safe against a sink that panics.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use outbox_sinks::{Batch, Connector, Progress, Session, Sink, SinkError, Upcoming};
use tokio::time::timeout;

use crate::decide::{Attempt, TimedOut};

/// Delivers a batch, and lets the sink begin with the next one. The second value tells
/// whether the sink may be used again: after a panic or past its deadline nobody knows what
/// state it is in.
pub async fn deliver(
    sink: &mut dyn Sink,
    batch: &Batch,
    mut next: Upcoming<'_>,
    deadline: Duration,
) -> (Attempt, bool) {
    let call = AssertUnwindSafe(sink.deliver_ahead(batch, &mut next)).catch_unwind();
    match timeout(deadline, call).await {
        Ok(Ok(outcome)) => (outcome, true),
        Ok(Err(panic)) => (Err(panicked("deliver", &*panic)), false),
        Err(_) => (Err(too_slow("deliver", deadline)), false),
    }
}

/// Opens a sink.
///
/// # Errors
/// The connector's own, or that it panicked or took longer than `deadline`.
pub async fn open(
    connector: &dyn Connector,
    session: &Session,
    deadline: Duration,
) -> Result<Box<dyn Sink>, SinkError> {
    let call = AssertUnwindSafe(connector.open(session)).catch_unwind();
    match timeout(deadline, call).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Err(panicked("open", &*panic)),
        Err(_) => Err(too_slow("open", deadline)),
    }
}

/// Asks a sink how far its destination has come.
///
/// # Errors
/// The sink's own, or that it panicked or took longer than `deadline`.
pub async fn progress(
    sink: &mut dyn Sink,
    deadline: Duration,
) -> Result<Option<Progress>, SinkError> {
    let call = AssertUnwindSafe(sink.progress()).catch_unwind();
    match timeout(deadline, call).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Err(panicked("progress", &*panic)),
        Err(_) => Err(too_slow("progress", deadline)),
    }
}

/// Closes a sink.
///
/// # Errors
/// The sink's own, or that it panicked or took longer than `deadline`.
pub async fn close(mut sink: Box<dyn Sink>, deadline: Duration) -> Result<(), SinkError> {
    let call = AssertUnwindSafe(sink.close()).catch_unwind();
    match timeout(deadline, call).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Err(panicked("close", &*panic)),
        Err(_) => Err(too_slow("close", deadline)),
    }
}

fn too_slow(call: &str, deadline: Duration) -> SinkError {
    let seconds = deadline.as_secs_f64();
    let what = format!("the sink's `{call}` took longer than {seconds} s");
    SinkError::failed(what).with_source(TimedOut)
}

fn panicked(call: &str, panic: &(dyn Any + Send)) -> SinkError {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    SinkError::failed(format!("the sink's `{call}` panicked: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outbox_sinks::{Delivery, Event, Position, from_fn};

    fn batch() -> Batch {
        Batch::new(vec![Event::new(Position::new(1, 1), "a.b", "{}")]).unwrap()
    }

    async fn attempt(connector: impl Connector) -> (Attempt, bool) {
        let session = Session::new("test", 1, Duration::from_secs(1));
        let mut sink = open(&connector, &session, Duration::from_secs(1))
            .await
            .unwrap();
        let deadline = Duration::from_secs(1);
        deliver(&mut *sink, &batch(), Upcoming::none(), deadline).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_sink_that_panics_or_hangs_is_a_failed_delivery_and_used_no_more() {
        let (panicked, usable) = attempt(from_fn(|_| async { panic!("boom") })).await;
        assert!(panicked.unwrap_err().to_string().contains("boom"));
        assert!(!usable);
        let (hung, usable) = attempt(from_fn(|_| std::future::pending())).await;
        assert!(
            hung.unwrap_err()
                .to_string()
                .contains("took longer than 1 s")
        );
        assert!(!usable);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sink_that_fails_is_used_again() {
        let (failed, usable) = attempt(from_fn(|_| async { Err(SinkError::failed("no")) })).await;
        assert!(failed.is_err() && usable);
        let (delivered, usable) = attempt(from_fn(|_| async { Ok(Delivery::All) })).await;
        assert_eq!(delivered.unwrap(), Delivery::All);
        assert!(usable);
    }
}
