//! The smallest sink: a function that takes a batch.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{Batch, Connector, Delivery, Session, Sink, SinkError};

/// Makes a connector of a function. It is asked for each batch; what it returns
/// is the delivery's outcome, and any plain error is a failed delivery.
///
/// ```
/// use outbox_sinks::{Delivery, from_fn};
/// let connector = from_fn(|batch| async move {
///     for event in &batch {
///         println!("{} {}", event.id(), event.event_type());
///     }
///     Ok(Delivery::All)
/// });
/// ```
pub fn from_fn<F, Fut>(deliver: F) -> Function<F>
where
    F: Fn(Batch) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Delivery, SinkError>> + Send + 'static,
{
    Function {
        deliver: Arc::new(deliver),
    }
}

/// The connector that [`from_fn`] makes. It can always be reached: `probe` asks nothing.
///
/// ```
/// use outbox_sinks::{Connector, Delivery, from_fn};
/// let connector: Box<dyn Connector> = Box::new(from_fn(|_| async { Ok(Delivery::All) }));
/// assert!(!connector.frozen_ranges());
/// ```
pub struct Function<F> {
    deliver: Arc<F>,
}

impl<F> fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}

#[async_trait]
impl<F, Fut> Connector for Function<F>
where
    F: Fn(Batch) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Delivery, SinkError>> + Send + 'static,
{
    async fn probe(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn open(&self, _session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Self {
            deliver: Arc::clone(&self.deliver),
        }))
    }
}

#[async_trait]
impl<F, Fut> Sink for Function<F>
where
    F: Fn(Batch) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Delivery, SinkError>> + Send + 'static,
{
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        (self.deliver)(batch.clone()).await
    }
}
