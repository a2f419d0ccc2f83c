//! From the troubles of one delivery to its outcome. Pure: no client, no clock.
//!
//! An event that was acknowledged although its predecessor of the same key was not
//! is sent again, after the predecessor: a key's last message is then its
//! newest event (OB-4).
//!
//! A broker refuses a whole request, whoever in it is to blame. Only an event that was
//! refused alone is said to be refused.

use std::collections::HashSet;

use outbox::Event;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::classify::{Class, classify};
use super::reports::Condition;
use crate::{Batch, Delivery, ErrorKind, Refusal, SinkError, Verdict};

/// Where an event goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Route {
    pub(super) topic: String,
    /// Without a key there is no order to keep.
    pub(super) key: Option<String>,
}

/// Why one event of the batch is not delivered.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// It can never be sent.
    Undeliverable(Refusal),
    /// The client or a broker said so.
    Answered(KafkaError),
    /// It was not sent, because of an earlier trouble or for lack of time.
    Unsent,
}

/// All that is known after a delivery.
pub(super) struct Outcome {
    /// By index, in any order, at most one for an event.
    pub(super) troubles: Vec<(usize, Trouble)>,
    /// Whether every other event is acknowledged; if not, nothing is known of them.
    pub(super) complete: bool,
    /// What the client said of itself.
    pub(super) condition: Option<Condition>,
}

impl Outcome {
    /// Whether all is well with the client and the cluster.
    pub(super) fn is_clean(&self) -> bool {
        let ours = |trouble: &Trouble| matches!(trouble, Trouble::Undeliverable(_));
        self.complete && self.troubles.iter().all(|(_, trouble)| ours(trouble))
    }

    /// The delivery that the runtime is told.
    pub(super) fn conclude(
        self,
        batch: &Batch,
        mut route: impl FnMut(&Event) -> Option<Route>,
    ) -> Result<Delivery, SinkError> {
        if self.troubles.is_empty() && self.complete {
            return Ok(Delivery::All);
        }
        let unnamed = if self.complete {
            Verdict::Delivered
        } else {
            Verdict::Unconfirmed
        };
        let mut verdicts = vec![unnamed; batch.len()];
        for (index, trouble) in &self.troubles {
            if let Some(verdict) = verdicts.get_mut(*index) {
                *verdict = trouble.verdict();
            }
        }
        let doubtful = blame_nobody_in_doubt(&mut verdicts);
        let error = self.error(batch, &mut route, doubtful);
        send_again_in_order(batch, &mut verdicts, &mut route);
        let undecided = verdicts
            .iter()
            .all(|verdict| *verdict == Verdict::Unconfirmed);
        if undecided || error.kind() == ErrorKind::Fenced {
            return Err(error);
        }
        Ok(Delivery::from_verdicts(verdicts))
    }

    /// The error for the case that nothing is decided about any event: the first of
    /// the gravest, with the client's own words. An outage is what remains if there
    /// is nothing else, unless a request of several events was refused.
    fn error(
        &self,
        batch: &Batch,
        route: &mut impl FnMut(&Event) -> Option<Route>,
        doubtful: Option<Refusal>,
    ) -> SinkError {
        let answers = self
            .troubles
            .iter()
            .filter_map(|(index, trouble)| match trouble {
                Trouble::Answered(error) => Some((Some(*index), error.clone())),
                Trouble::Undeliverable(_) | Trouble::Unsent => None,
            });
        let said = self.condition.iter();
        let said = said.map(|condition| (None, KafkaError::Global(condition.code)));
        let gravest = answers.chain(said).min_by_key(|(_, error)| gravity(error));
        let Some((index, error)) = gravest else {
            let events = batch.len();
            return SinkError::unavailable(format!("deliver {events} events to Kafka in time"));
        };
        let topic = index.and_then(|index| batch.get(index)).and_then(route);
        let doing = match topic {
            Some(Route { topic, .. }) => format!("deliver to Kafka topic `{topic}`"),
            None => "deliver to Kafka".to_owned(),
        };
        let reason = self
            .condition
            .as_ref()
            .map_or("", |condition| &condition.reason);
        let error = sink_error(&doing, &error, reason);
        match doubtful {
            Some(refusal) if error.kind() == ErrorKind::Unavailable => SinkError::failed(format!(
                "{doing}: a request of several messages was refused: {refusal}"
            )),
            _ => error,
        }
    }
}

/// If several events were refused they may have shared a request, and one of them may be
/// to blame for all: what is known of none of them is left open. Returns what was said.
fn blame_nobody_in_doubt(verdicts: &mut [Verdict]) -> Option<Refusal> {
    let refused = |verdict: &&mut Verdict| matches!(verdict, Verdict::Refused(_));
    let mut several: Vec<_> = verdicts.iter_mut().filter(refused).collect();
    if several.len() < 2 {
        return None;
    }
    let mut told = None;
    for verdict in &mut several {
        if let Verdict::Refused(refusal) = std::mem::replace(*verdict, Verdict::Unconfirmed) {
            told.get_or_insert(refusal);
        }
    }
    told
}

/// Which error to show when there are several: the least is shown.
fn gravity(error: &KafkaError) -> u8 {
    let taken_back = [
        RDKafkaErrorCode::PurgeQueue,
        RDKafkaErrorCode::PurgeInflight,
    ];
    match classify(error) {
        Class::Fenced => 0,
        Class::Misconfigured(_) => 1,
        Class::Failed => 2,
        _ if error
            .rdkafka_error_code()
            .is_some_and(|code| taken_back.contains(&code)) =>
        {
            4
        }
        Class::Refused(_) | Class::TooLarge | Class::Unavailable => 3,
    }
}

impl Trouble {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Undeliverable(refusal) => Verdict::Undeliverable(refusal.clone()),
            Self::Unsent => Verdict::Unconfirmed,
            Self::Answered(error) => match classify(error) {
                Class::Refused(code) => Verdict::Refused(Refusal::new(code, told(error))),
                Class::TooLarge => Verdict::Refused(Refusal::new(
                    "TOO_LARGE",
                    format!(
                        "a broker found the request too large: {}; set `max_message_bytes` to the topic's `max.message.bytes`",
                        told(error)
                    ),
                )),
                Class::Unavailable | Class::Misconfigured(_) | Class::Fenced | Class::Failed => {
                    Verdict::Unconfirmed
                }
            },
        }
    }
}

/// An error of a whole delivery or probe.
pub(super) fn sink_error(doing: &str, error: &KafkaError, reason: &str) -> SinkError {
    let mut message = format!("{doing}: {}", told(error));
    if !reason.is_empty() {
        message.push_str(": ");
        message.push_str(reason);
    }
    match classify(error) {
        Class::Misconfigured(advice) => SinkError::misconfigured(message, advice),
        Class::Fenced => SinkError::fenced(message),
        Class::Failed => SinkError::failed(message),
        Class::Unavailable | Class::Refused(_) | Class::TooLarge => SinkError::unavailable(message),
    }
}

/// The error's code and librdkafka's text for it. The texts that can quote settings
/// are left out.
fn told(error: &KafkaError) -> String {
    match error.rdkafka_error_code() {
        Some(code) => code.to_string(),
        None if matches!(
            error,
            KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_)
        ) =>
        {
            "the client does not take the settings".to_owned()
        }
        None => error.to_string(),
    }
}

/// Within a key, what comes after an event that is sent again is sent again too.
fn send_again_in_order(
    batch: &Batch,
    verdicts: &mut [Verdict],
    mut route: impl FnMut(&Event) -> Option<Route>,
) {
    let mut keyed = |event: &Event| route(event).filter(|route| route.key.is_some());
    let mut held_up = HashSet::new();
    for (event, verdict) in batch.iter().zip(verdicts) {
        match verdict {
            Verdict::Undeliverable(_) => {}
            Verdict::Unconfirmed | Verdict::Refused(_) => held_up.extend(keyed(event)),
            Verdict::Delivered => {
                if !held_up.is_empty() && keyed(event).is_some_and(|route| held_up.contains(&route))
                {
                    *verdict = Verdict::Unconfirmed;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use outbox::Position;

    use super::*;

    /// Events with these keys; an empty key is none.
    fn batch(keys: &[&str]) -> Batch {
        let event = |(seq, key): (usize, &&str)| {
            let payload = format!(r#"{{"id":"e{seq}","type":"a.b","subject":"{key}"}}"#);
            let seq = i64::try_from(seq).unwrap();
            Event::new(Position::new(1, seq), "a.b", payload)
        };
        Batch::new(keys.iter().enumerate().map(event).collect::<Vec<_>>()).unwrap()
    }

    fn route(event: &Event) -> Option<Route> {
        let key = event.subject();
        Some(Route {
            topic: "events".to_owned(),
            key: (!key.is_empty()).then(|| key.to_owned()),
        })
    }

    fn answered(code: RDKafkaErrorCode) -> Trouble {
        Trouble::Answered(KafkaError::MessageProduction(code))
    }

    fn concluded(
        keys: &[&str],
        troubles: Vec<(usize, Trouble)>,
        condition: Option<RDKafkaErrorCode>,
    ) -> Result<Vec<char>, SinkError> {
        let outcome = Outcome {
            troubles,
            complete: true,
            condition: condition.map(|code| Condition {
                code,
                reason: "broker:9092: the words of the client".to_owned(),
            }),
        };
        let short = |verdict: &Verdict| match verdict {
            Verdict::Delivered => 'd',
            Verdict::Undeliverable(_) => 'x',
            Verdict::Refused(_) => 'r',
            Verdict::Unconfirmed => '?',
        };
        Ok(match outcome.conclude(&batch(keys), route)? {
            Delivery::All => Vec::new(),
            Delivery::Each(verdicts) => verdicts.iter().map(short).collect(),
        })
    }

    #[test]
    fn without_trouble_all_is_delivered() {
        assert!(concluded(&["a", "b"], vec![], None).unwrap().is_empty());
    }

    #[test]
    fn what_follows_a_failed_event_of_its_key_is_sent_again() {
        let troubles = vec![
            (1, answered(RDKafkaErrorCode::InvalidRecord)),
            (5, answered(RDKafkaErrorCode::MessageTimedOut)),
        ];
        let verdicts = concluded(&["a", "a", "b", "a", "", "", ""], troubles, None).unwrap();
        assert_eq!(verdicts, ['d', 'r', 'd', '?', 'd', '?', 'd']);
    }

    #[test]
    fn several_that_were_refused_may_have_been_so_for_one_of_them() {
        let refused = |index| (index, answered(RDKafkaErrorCode::InvalidRecord));
        let some = vec![refused(1), refused(2)];
        let verdicts = concluded(&["a", "b", "c", "c"], some, None).unwrap();
        assert_eq!(verdicts, ['d', '?', '?', '?'], "nobody is blamed");
        let all = vec![refused(0), refused(1), (2, Trouble::Unsent)];
        let error = concluded(&["a", "b", "c"], all, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "it has to be halved");
        assert!(error.chain().contains("INVALID_RECORD"), "{error:?}");
        let followed = vec![refused(0), refused(1)];
        let error = concluded(&["a", "b", "a", "b"], followed, None).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Failed,
            "also if their followers went through"
        );
        let denied = vec![
            refused(0),
            refused(1),
            (2, answered(RDKafkaErrorCode::UnknownTopic)),
        ];
        let error = concluded(&["a", "b", "c"], denied, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
    }

    #[test]
    fn what_follows_an_undeliverable_event_stays_delivered() {
        let refusal = Refusal::new("TOO_LARGE", "too large");
        let troubles = vec![(0, Trouble::Undeliverable(refusal))];
        assert_eq!(concluded(&["a", "a"], troubles, None).unwrap(), ['x', 'd']);
    }

    #[test]
    fn if_nothing_is_known_the_whole_delivery_is_an_outage() {
        let troubles = vec![
            (0, answered(RDKafkaErrorCode::MessageTimedOut)),
            (1, Trouble::Unsent),
        ];
        let condition = Some(RDKafkaErrorCode::AllBrokersDown);
        let error = concluded(&["a", "b"], troubles, condition).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(
            error.chain().contains("the words of the client"),
            "{error:?}"
        );
    }

    #[test]
    fn an_outage_that_comes_of_wrong_credentials_is_a_misconfiguration() {
        let troubles = vec![(0, answered(RDKafkaErrorCode::MessageTimedOut))];
        let condition = Some(RDKafkaErrorCode::Authentication);
        let error = concluded(&["a"], troubles, condition).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.advice().is_some());
    }

    #[test]
    fn a_missing_topic_is_named() {
        let troubles = vec![
            (0, answered(RDKafkaErrorCode::PurgeQueue)),
            (1, answered(RDKafkaErrorCode::UnknownTopic)),
        ];
        let error = concluded(&["a", "b"], troubles, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("`events`"), "{error}");
    }

    #[test]
    fn being_fenced_is_told_even_if_some_were_delivered() {
        let troubles = vec![(1, answered(RDKafkaErrorCode::ProducerFenced))];
        let error = concluded(&["a", "b"], troubles, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced);
    }

    #[test]
    fn without_all_reports_nothing_counts_as_delivered() {
        let outcome = Outcome {
            troubles: vec![(0, answered(RDKafkaErrorCode::InvalidRecord))],
            complete: false,
            condition: None,
        };
        let Delivery::Each(verdicts) = outcome.conclude(&batch(&["a", "b"]), route).unwrap() else {
            panic!("one event was refused");
        };
        assert_eq!(verdicts[1], Verdict::Unconfirmed);
    }
}
