//! What is wrong with a sink: one thing at a time.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a sink does everything right but for its own fault"
)]

use std::borrow::Cow;
use std::time::Duration;

use outbox_sinks::{Batch, Delivery, Event, Refusal, SinkError, Verdict};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::sink::{LedgerConnector, LedgerSink};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    AcknowledgesBeforeItIsDurable,
    AcknowledgesWithoutSending,
    ReordersAKey,
    ReordersOnRetry,
    FollowsARefusedEvent,
    BlamesTheWholeBatch,
    CallsAnOutageUndeliverable,
    CallsAnOutageFailed,
    CallsAnOutageMisconfigured,
    ResendsAfterALostAnswer,
    LoopsUntilItWorks,
    HasNoDeadline,
    SendsLaterInTheBackground,
    LeaksThePassword,
    LeaksThePayload,
    DropsReplays,
    GivesTooFewVerdicts,
    RewritesThePayload,
    HangsInClose,
    PanicsOnAnOddEvent,
    ProbesNothing,
    ProbesByWriting,
    GivesNoAdvice,
    TakesNoEvents,
    KeepsRepetitions,
    BlamesALateOwner,
    WritesToTheLastPlace,
    GoesStraightToTheServer,
    FlushesWhenItCloses,
    LeaksTheSubject,
    ReturnsALittleLate,
    ForgetsWhatItBegan,
    SendsWhatItBeganLater,
    /// Says that it stores a position, and does not.
    CallsAnOutageFailedWhenAsked,
    RemembersInItsConnector,
    /// No fault: it is back two seconds after an outage.
    TakesItsTimeToReconnect,
    /// No fault where repetitions are kept.
    SendsReplaysTwice,
}

impl Fault {
    /// The verdicts, as the sink reports them.
    pub(crate) fn answer(self, mut verdicts: Vec<Verdict>) -> Delivery {
        let refused = |verdict: &Verdict| matches!(verdict, Verdict::Refused(_));
        match self {
            Self::GivesTooFewVerdicts => {
                verdicts.pop();
                return Delivery::Each(verdicts);
            }
            Self::BlamesTheWholeBatch => {
                if let Some(first) = verdicts.iter().find(|verdict| refused(verdict)).cloned() {
                    verdicts.fill(first);
                }
            }
            _ => {}
        }
        Delivery::from_verdicts(verdicts)
    }

    /// An error, as the sink reports it.
    pub(crate) fn hide(
        self,
        error: SinkError,
        batch: &Batch,
        connector: &LedgerConnector,
        later: &mut JoinSet<()>,
    ) -> Result<Delivery, SinkError> {
        let outage = error.advice().is_none();
        match self {
            Self::AcknowledgesWithoutSending if outage => return Ok(Delivery::All),
            Self::CallsAnOutageUndeliverable if outage => {
                let refusal = Refusal::new("GONE", "the ledger is gone");
                let verdicts = vec![Verdict::Undeliverable(refusal); batch.len()];
                return Ok(Delivery::Each(verdicts));
            }
            Self::SendsLaterInTheBackground if outage => {
                let (batch, connector) = (batch.clone(), connector.clone());
                later.spawn(send_later(batch, connector));
            }
            _ => {}
        }
        Err(error)
    }

    /// Why the ledger refused an event.
    pub(crate) fn refusal(self, event: &Event) -> Refusal {
        let reason = match self {
            Self::LeaksThePayload => format!("the ledger did not take {}", event.payload()),
            Self::LeaksTheSubject => format!("the ledger did not take {}", event.subject()),
            _ => "the ledger did not take it".to_owned(),
        };
        Refusal::new("REFUSED", reason)
    }

    /// What is sent of an event.
    pub(crate) fn body(self, event: &Event) -> Cow<'_, str> {
        match self {
            Self::RewritesThePayload => serde_json::from_str::<serde_json::Value>(event.payload())
                .map_or(event.payload().into(), |value| value.to_string().into()),
            _ => event.payload().into(),
        }
    }
}

pub(crate) async fn send_later(batch: Batch, connector: LedgerConnector) {
    let mut sink = LedgerSink::new(connector, 1);
    for _ in 0..10 {
        sleep(Duration::from_millis(400)).await;
        if sink.write(&batch).await.is_ok() {
            return;
        }
    }
}
