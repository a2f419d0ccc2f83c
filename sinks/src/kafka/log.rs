//! librdkafka's log lines, passed on to tracing.
//!
//! The runtime logs what becomes of deliveries. These lines tell the details, and an
//! outage repeats them at every attempt to connect. So a line of a kind is
//! a warning once; its like are details until a delivery has succeeded again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::config::RDKafkaLogLevel;

use super::options::Secrets;

/// Where one sink's lines go, through all its producers.
#[derive(Clone)]
pub(super) struct ClientLog {
    sink: Arc<str>,
    secrets: Secrets,
    seen: Arc<Mutex<BTreeSet<String>>>,
}

impl ClientLog {
    pub(super) fn new(sink: &str, secrets: &Secrets) -> Self {
        Self {
            sink: sink.into(),
            secrets: secrets.clone(),
            seen: Arc::default(),
        }
    }

    /// Passes one line on.
    pub(super) fn line(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        let sink = &*self.sink;
        if is_about_our_own_choice(facility, message) {
            return tracing::debug!(sink, facility, message, "kafka client");
        }
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => {
                let detail = self.scrub(message);
                if self.is_first(facility) {
                    tracing::warn!(sink, facility, detail, "kafka client reports a problem");
                } else {
                    tracing::debug!(
                        sink,
                        facility,
                        detail,
                        "kafka client reports a problem again"
                    );
                }
            }
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                let detail = self.scrub(message);
                tracing::debug!(sink, facility, detail, "kafka client");
            }
            RDKafkaLogLevel::Debug => {
                let detail = self.scrub(message);
                tracing::trace!(sink, facility, detail, "kafka client");
            }
        }
    }

    /// The next problem is a warning again.
    pub(super) fn recovered(&self) {
        self.seen().clear();
    }

    pub(super) fn scrub(&self, text: &str) -> String {
        self.secrets.scrub(text)
    }

    fn is_first(&self, facility: &str) -> bool {
        self.seen().insert(facility.to_owned())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each new producer warns that this option is experimental. It is this sink that sets it,
/// with tests of what it rests on, and not somebody whom the warning could help.
fn is_about_our_own_choice(facility: &str, message: &str) -> bool {
    facility == "CONFWARN" && message.contains("enable.gapless.guarantee")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_warning_about_the_sinks_own_setting_is_no_warning() {
        let about = |name: &str| format!("Configuration property {name} is experimental");
        let ours = about("enable.gapless.guarantee");
        assert!(is_about_our_own_choice("CONFWARN", &ours));
        assert!(!is_about_our_own_choice(
            "CONFWARN",
            &about("something.else")
        ));
        assert!(!is_about_our_own_choice("FAIL", &ours));
    }

    #[test]
    fn a_problem_of_one_kind_is_new_only_once_until_recovery() {
        let log = ClientLog::new("orders", &Secrets::default());
        let again = log.clone();
        assert!(log.is_first("FAIL"));
        assert!(!again.is_first("FAIL"));
        assert!(again.is_first("ERROR"));
        log.recovered();
        assert!(again.is_first("FAIL"));
    }
}
