//! What each error of the client library comes to: one table for messages, probes
//! and the client itself. `docs/sinks/kafka.md` shows the same table to operators,
//! and a test compares the two.
//!
//! A broker's answer covers a whole produce request, so an error that speaks
//! against a message only makes it *refused*, never undeliverable: its innocent
//! neighbours in the request get the same answer. And since an event that is refused
//! alone again and again ends among the dead letters while other partitions take theirs,
//! only what a broker says of records is a refusal. What may come of its clock, its
//! disk, a setting or a proxy is not, and neither is what nobody can tell.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// What an error comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing is known against any event: try again.
    Unavailable,
    /// A person must act; the advice says how.
    Misconfigured(&'static str),
    /// Somebody newer owns the destination.
    Fenced,
    /// The message, or another one in its request, was not taken. The code goes
    /// into the verdict.
    Refused(&'static str),
    /// Over a size limit: undeliverable if the client says so when the message is
    /// handed over, refused if a broker says so of a whole request.
    TooLarge,
    /// Nothing that a producer should ever see.
    Failed,
}

const CREATE_TOPIC: &str =
    "create the topic, or correct `topic`; the user must be allowed to describe it";
const ALLOW: &str =
    "allow the sink's user to describe and write the topic, and to write idempotently";
const CREDENTIALS: &str = "check `sasl` (mechanism, user, password) and the user at the broker";
const TLS: &str = "check `tls`: the authority that signed the broker's certificate, the broker's name, our certificate";
const SETTINGS: &str = "correct the sink's settings";
const BROKER: &str = "check the brokers' version and settings";
const CLOCK: &str = "compare the clocks of this machine and the brokers, and the topic's `message.timestamp` limits";

/// What an error of the library comes to.
pub(super) fn classify(error: &KafkaError) -> Class {
    match error {
        KafkaError::AdminOp(code)
        | KafkaError::ConsumerCommit(code)
        | KafkaError::ConsumerQueueClose(code)
        | KafkaError::Flush(code)
        | KafkaError::Global(code)
        | KafkaError::GroupListFetch(code)
        | KafkaError::MessageConsumption(code)
        | KafkaError::MessageConsumptionFatal(code)
        | KafkaError::MessageProduction(code)
        | KafkaError::MetadataFetch(code)
        | KafkaError::MockCluster(code)
        | KafkaError::OffsetFetch(code)
        | KafkaError::Rebalance(code)
        | KafkaError::SetPartitionOffset(code)
        | KafkaError::StoreOffset(code) => classify_code(*code),
        KafkaError::Transaction(error) => classify_code(error.code()),
        KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_) => {
            Class::Misconfigured(SETTINGS)
        }
        KafkaError::Canceled => Class::Unavailable,
        KafkaError::AdminOpCreation(_)
        | KafkaError::NoMessageReceived
        | KafkaError::Nul(_)
        | KafkaError::PartitionEOF(_)
        | KafkaError::PauseResume(_)
        | KafkaError::Seek(_)
        | KafkaError::Subscription(_) => Class::Failed,
        // The library may add some; see `NEWER`.
        _ => NEWER,
    }
}

/// What this version does not know speaks against no event.
const NEWER: Class = Class::Unavailable;

/// What an error code comes to.
#[expect(
    clippy::too_many_lines,
    reason = "one table of every code the library knows"
)]
pub(super) fn classify_code(code: RDKafkaErrorCode) -> Class {
    use RDKafkaErrorCode as Code;
    match code {
        // The message's size.
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize => {
            Class::TooLarge
        }

        // Something about the message, or one beside it.
        Code::InvalidMessage => Class::Refused("INVALID_MESSAGE"),
        Code::InvalidRecord => Class::Refused("INVALID_RECORD"),
        Code::PolicyViolation => Class::Refused("POLICY_VIOLATION"),

        // Messages bear the time at which they are sent: no event has a wrong one.
        Code::InvalidTimestamp => Class::Misconfigured(CLOCK),

        // The topic.
        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::UnknownPartition
        | Code::UnknownTopicId
        | Code::InvalidTopic => Class::Misconfigured(CREATE_TOPIC),

        // What we are allowed to do.
        Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::DelegationTokenAuthorizationFailed => Class::Misconfigured(ALLOW),

        // Who we are.
        Code::Authentication
        | Code::SaslAuthenticationFailed
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::SecurityDisabled
        | Code::DelegationTokenAuthDisabled
        | Code::DelegationTokenNotFound
        | Code::DelegationTokenOwnerMismatch
        | Code::DelegationTokenRequestNotAllowed
        | Code::DelegationTokenExpired
        | Code::PrincipalDeserializationFailure
        | Code::InvalidPrincipalType
        | Code::UnacceptableCredential => Class::Misconfigured(CREDENTIALS),
        Code::SSL => Class::Misconfigured(TLS),

        // Settings, and brokers that do not go with them.
        Code::InvalidArgument
        | Code::NotConfigured
        | Code::InvalidConfig
        | Code::FileSystem
        | Code::CriticalSystemResource => Class::Misconfigured(SETTINGS),
        Code::UnsupportedVersion
        | Code::UnsupportedForMessageFormat
        | Code::UnsupportedCompressionType
        | Code::UnsupportedFeature
        | Code::InvalidRequiredAcks
        | Code::BadCompression
        | Code::UnknownProtocol
        | Code::NotImplemented
        | Code::InvalidRequest
        | Code::ListenerNotFound => Class::Misconfigured(BROKER),

        // Somebody newer.
        Code::Fenced | Code::ProducerFenced | Code::TransactionCoordinatorFenced => Class::Fenced,

        // The brokers can't be reached, or say "not now".
        Code::BrokerTransportFailure
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::MessageTimedOut
        | Code::OperationTimedOut
        | Code::TimedOutQueue
        | Code::RequestTimedOut
        | Code::NetworkException
        | Code::BrokerDestroy
        | Code::DestroyBroker
        | Code::BrokerNotAvailable
        | Code::UnknownBroker
        | Code::LeaderNotAvailable
        | Code::NotLeaderForPartition
        | Code::FencedLeaderEpoch
        | Code::UnknownLeaderEpoch
        | Code::ReplicaNotAvailable
        | Code::NotEnoughReplicas
        | Code::NotEnoughReplicasAfterAppend
        | Code::ISRInsufficient
        | Code::KafkaStorageError
        | Code::LogDirNotFound
        | Code::NotController
        | Code::StaleControllerEpoch
        | Code::StaleBrokerEpoch
        | Code::CoordinatorLoadInProgress
        | Code::CoordinatorNotAvailable
        | Code::NotCoordinator
        | Code::WaitingForCoordinator
        | Code::ReassignmentInProgress
        | Code::PreferredLeaderNotAvailable
        | Code::EligibleLeadersNotAvailable
        | Code::ThrottlingQuotaExceeded
        | Code::RebootstrapRequired
        | Code::OperationNotAttempted
        | Code::OffsetNotAvailable
        | Code::NodeUpdate
        | Code::WaitCache
        | Code::InProgress
        | Code::PreviousInProgress
        | Code::Interrupted
        | Code::Retry
        | Code::Partial
        | Code::Underflow => Class::Unavailable,

        // Not sent, or only because of another one: nothing against this message.
        Code::QueueFull | Code::PurgeQueue | Code::PurgeInflight | Code::InvalidDifferentRecord => {
            Class::Unavailable
        }

        // The idempotent producer's bookkeeping is broken: a new producer mends it.
        Code::Fatal
        | Code::GaplessGuarantee
        | Code::Inconsistent
        | Code::State
        | Code::OutOfOrderSequenceNumber
        | Code::DuplicateSequenceNumber
        | Code::UnknownProducerId
        | Code::InvalidProducerEpoch
        | Code::InvalidProducerIdMapping => Class::Unavailable,

        // Something went wrong in a broker, in the client, or between them.
        Code::Unknown | Code::BadMessage | Code::Fail => Class::Unavailable,

        // Consumers, groups, transactions, administration: none of ours.
        Code::PartitionEOF
        | Code::UnknownGroup
        | Code::ExistingSubscription
        | Code::AssignPartitions
        | Code::RevokePartitions
        | Code::Conflict
        | Code::NoOffset
        | Code::Outdated
        | Code::KeySerialization
        | Code::ValueSerialization
        | Code::KeyDeserialization
        | Code::ValueDeserialization
        | Code::ReadOnly
        | Code::NoEnt
        | Code::InvalidType
        | Code::PollExceeded
        | Code::Application
        | Code::AssignmentLost
        | Code::Noop
        | Code::AutoOffsetReset
        | Code::LogTruncation
        | Code::NoError
        | Code::OffsetOutOfRange
        | Code::OffsetMetadataTooLarge
        | Code::IllegalGeneration
        | Code::InconsistentGroupProtocol
        | Code::InvalidGroupId
        | Code::UnknownMemberId
        | Code::InvalidSessionTimeout
        | Code::RebalanceInProgress
        | Code::InvalidCommitOffsetSize
        | Code::TopicAlreadyExists
        | Code::InvalidPartitions
        | Code::InvalidReplicationFactor
        | Code::InvalidReplicaAssignment
        | Code::InvalidTransactionalState
        | Code::InvalidTransactionTimeout
        | Code::ConcurrentTransactions
        | Code::NonEmptyGroup
        | Code::GroupIdNotFound
        | Code::FetchSessionIdNotFound
        | Code::InvalidFetchSessionEpoch
        | Code::TopicDeletionDisabled
        | Code::MemberIdRequired
        | Code::GroupMaxSizeReached
        | Code::FencedInstanceId
        | Code::ElectionNotNeeded
        | Code::NoReassignmentInProgress
        | Code::GroupSubscribedToTopic
        | Code::UnstableOffsetCommit
        | Code::ResourceNotFound
        | Code::DuplicateResource
        | Code::InconsistentVoterSet
        | Code::InvalidUpdateVersion
        | Code::FeatureUpdateFailed
        | Code::FencedMemberEpoch
        | Code::UnreleasedInstanceId
        | Code::UnsupportedAssignor
        | Code::StaleMemberEpoch
        | Code::UnknownSubscriptionId
        | Code::TelemetryTooLarge => Class::Failed,

        _ => NEWER,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rdkafka::types::RDKafkaRespErr;

    use super::*;

    /// The guide's table: code to outcome.
    fn documented() -> BTreeMap<String, String> {
        let guide = include_str!("../../../docs/sinks/kafka.md");
        let table = guide
            .split("<!-- errors -->")
            .nth(1)
            .expect("the table is marked");
        let rows = table.lines().filter(|line| line.starts_with("| `"));
        let mut codes = BTreeMap::new();
        for row in rows {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            for code in cells[0].split(", ") {
                let code = code.trim_matches('`').to_owned();
                let before = codes.insert(code.clone(), cells[1].to_owned());
                assert!(before.is_none(), "{code} is in the guide twice");
            }
        }
        codes
    }

    fn outcome(class: Class) -> &'static str {
        match class {
            Class::Unavailable => "unavailable",
            Class::Misconfigured(_) => "misconfigured",
            Class::Fenced => "fenced",
            Class::Refused(_) => "refused",
            Class::TooLarge => "undeliverable or refused",
            Class::Failed => "failed",
        }
    }

    #[test]
    fn the_guide_and_the_code_agree_on_every_error_of_the_library() {
        let mut documented = documented();
        for number in -200..200 {
            let Ok(native) = RDKafkaRespErr::try_from(number) else {
                continue;
            };
            let code = RDKafkaErrorCode::from(native);
            let name = format!("{code:?}");
            let class = classify_code(code);
            match documented.remove(&name) {
                Some(told) => assert_eq!(told, outcome(class), "{name}"),
                // The guide has one sentence for what can't come to a producer. The
                // ends of the list of codes are none.
                None if ["Begin", "End", "EndAll"].contains(&name.as_str()) => {}
                None => assert_eq!(class, Class::Failed, "{name} is not in the guide"),
            }
        }
        assert!(
            documented.is_empty(),
            "no such codes: {:?}",
            documented.keys()
        );
    }

    #[test]
    fn an_outage_never_speaks_against_an_event() {
        for code in [
            RDKafkaErrorCode::AllBrokersDown,
            RDKafkaErrorCode::MessageTimedOut,
            RDKafkaErrorCode::NotEnoughReplicas,
            RDKafkaErrorCode::PurgeInflight,
            RDKafkaErrorCode::OutOfOrderSequenceNumber,
            RDKafkaErrorCode::Unknown,
            RDKafkaErrorCode::BadMessage,
        ] {
            let error = KafkaError::MessageProduction(code);
            assert_eq!(classify(&error), Class::Unavailable, "{code:?}");
        }
    }

    /// What is refused alone again and again becomes a dead letter, so this list is short.
    #[test]
    fn only_what_a_broker_says_of_records_speaks_against_an_event() {
        let mut against = Vec::new();
        for number in -200..200 {
            let Ok(native) = RDKafkaRespErr::try_from(number) else {
                continue;
            };
            let code = RDKafkaErrorCode::from(native);
            if matches!(classify_code(code), Class::Refused(_) | Class::TooLarge) {
                against.push(format!("{code:?}"));
            }
        }
        let expected = [
            "InvalidMessage",
            "InvalidMessageSize",
            "MessageSizeTooLarge",
            "MessageBatchTooLarge",
            "PolicyViolation",
            "InvalidRecord",
        ];
        assert_eq!(against, expected);
    }
}
