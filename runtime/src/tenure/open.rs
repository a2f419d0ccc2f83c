//! Opening the sink, and going on where its destination says that it has come to.
//!
//! Guards OB-1 for destinations that store a position: the cursor follows one that is
//! ahead, and nothing is delivered to one that is behind or speaks of another outbox.

use std::time::Duration;

use outbox_sinks::{Progress, Session, Sink, SinkError};
use tracing::info;

use super::Tenure;
use crate::attempt;
use crate::decide::{Stored, stored};
use crate::hold::Ended;
use crate::store::Store;

impl<S: Store> Tenure<'_, S> {
    /// Opens the sink. The outer error ends the tenure, or makes it begin anew from where
    /// the destination has come to; the inner one is the sink's own.
    pub(super) async fn open(&mut self) -> Result<Result<Box<dyn Sink>, SinkError>, Ended> {
        let (connector, deadline) = (&*self.of.connector, self.of.sink.delivery_timeout);
        let session = Session::new(self.hold.sink, self.hold.lease.token, deadline)
            .in_flow(self.cursor.flow.clone());
        let opening = async {
            let mut sink = attempt::open(connector, &session, deadline).await?;
            let progress = match connector.stores_position() {
                true => Some(attempt::progress(&mut *sink, deadline).await?),
                false => None,
            };
            Ok((sink, progress))
        };
        // Two calls with a deadline each.
        let call = self.of.board.opening(2 * deadline);
        match self.hold.to_the_end(Duration::ZERO, opening).await? {
            Ok((sink, None)) => Ok(Ok(sink)),
            Ok((sink, Some(progress))) => self.go_on(sink, progress.as_ref()).await.map(Ok),
            Err(error) => Ok(Err(call.not_opened(error))),
        }
    }

    /// Brings the cursor and what the destination has stored together.
    async fn go_on(
        &mut self,
        sink: Box<dyn Sink>,
        progress: Option<&Progress>,
    ) -> Result<Box<dyn Sink>, Ended> {
        // It may have come further since it was claimed.
        self.cursor.position = self.saved;
        match stored(&self.cursor, self.hold.lease.token, progress) {
            Stored::GoOn => Ok(sink),
            Stored::Ahead(position) => {
                let (name, cursor) = (self.hold.sink, self.cursor.position);
                info!(sink = name, %cursor, %position, "following the destination's position");
                self.sink = Some(sink);
                self.cursor.delivered = Some(position);
                // What was in hand at the last death is stored.
                self.died = false;
                self.commit(Some(position), Vec::new()).await?;
                Err(Ended::Resumed)
            }
            Stored::Stop(reason) => {
                self.sink = Some(sink);
                self.close_sink().await;
                Err(self.explain(reason).await?)
            }
        }
    }
}
