//! A connector around another that counts what was delivered, for the progress line
//! and for knowing when everything is.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use outbox_sinks::{
    Batch, BatchLimits, Connector, Delivery, Event, Progress, Session, Sink, SinkError, Upcoming,
};

/// Counts the events that a sink reported as delivered.
#[derive(Debug)]
pub(super) struct Counted {
    inner: Box<dyn Connector>,
    delivered: Arc<AtomicU64>,
}

impl Counted {
    /// Wraps a connector; `delivered` grows with every delivery.
    pub(super) fn new(inner: Box<dyn Connector>, delivered: Arc<AtomicU64>) -> Self {
        Self { inner, delivered }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Connector for Counted {
    async fn probe(&self) -> Result<(), SinkError> {
        self.inner.probe().await
    }

    async fn open(&self, session: &Session) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(CountedSink {
            inner: self.inner.open(session).await?,
            delivered: Arc::clone(&self.delivered),
        }))
    }

    fn batch_limits(&self) -> BatchLimits {
        self.inner.batch_limits()
    }

    fn frozen_ranges(&self) -> bool {
        self.inner.frozen_ranges()
    }

    fn stores_position(&self) -> bool {
        self.inner.stores_position()
    }

    fn key<'e>(&self, event: &'e Event) -> Cow<'e, str> {
        self.inner.key(event)
    }
}

struct CountedSink {
    inner: Box<dyn Sink>,
    delivered: Arc<AtomicU64>,
}

impl CountedSink {
    fn count(&self, batch: &Batch, delivery: &Delivery) {
        let delivered = (0..batch.len()).filter(|index| delivery.is_delivered(*index));
        let count = delivered.count();
        self.delivered.fetch_add(count as u64, Ordering::Relaxed);
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Sink for CountedSink {
    async fn deliver(&mut self, batch: &Batch) -> Result<Delivery, SinkError> {
        let delivery = self.inner.deliver(batch).await?;
        self.count(batch, &delivery);
        Ok(delivery)
    }

    async fn deliver_ahead(
        &mut self,
        batch: &Batch,
        next: &mut Upcoming<'_>,
    ) -> Result<Delivery, SinkError> {
        let delivery = self.inner.deliver_ahead(batch, next).await?;
        self.count(batch, &delivery);
        Ok(delivery)
    }

    async fn progress(&mut self) -> Result<Option<Progress>, SinkError> {
        self.inner.progress().await
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        self.inner.close().await
    }
}
