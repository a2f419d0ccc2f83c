//! Runs checks one after another, each in a fresh place and bounded in time.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout};

use super::courier::panic_text;
use super::finding::{Finding, Stop};
use super::journal::Journal;
use super::report::{Check, Outcome, Report};
use super::scene::{Run, Scene};
use super::{Destination, Rule};

/// The checks of one destination, those that ran already and what they share.
pub(super) struct Suite<'d, D: Destination> {
    destination: &'d D,
    journal: Arc<Journal>,
    run: Arc<Run>,
    checks: Vec<Check>,
}

impl<'d, D: Destination> Suite<'d, D> {
    pub(super) fn new(destination: &'d D) -> Self {
        let run = Run::new();
        Self {
            destination,
            journal: Arc::new(Journal::new(destination.secrets(), &run.canary)),
            run: Arc::new(run),
            checks: Vec::new(),
        }
    }

    pub(super) fn report(self, name: &str) -> Report {
        Report::new(name.to_owned(), self.checks)
    }

    /// Runs a check. One that panics or does not end has failed; the next one runs.
    pub(super) async fn check<F>(&mut self, rule: Rule, name: &'static str, check: F)
    where
        F: for<'s> FnOnce(&'s Scene<'d, D>) -> BoxFuture<'s, Finding>,
    {
        self.journal.begin(name);
        let started = Instant::now();
        let whole = async {
            let place = self.destination.fresh().await;
            let (journal, run) = (Arc::clone(&self.journal), Arc::clone(&self.run));
            let scene = Scene::new(self.destination, place, journal, run, self.checks.len());
            check(&scene).await
        };
        let limit = Duration::from_secs(60) + 12 * self.destination.delivery_timeout();
        let bounded = timeout(limit, Box::pin(AssertUnwindSafe(whole).catch_unwind()));
        let outcome = match bounded.await {
            Ok(Ok(Ok(()))) => Outcome::Passed,
            Ok(Ok(Err(Stop::NotApplicable(why)))) => Outcome::NotApplicable(why),
            Ok(Ok(Err(Stop::Broken { rule: other, seen }))) => Outcome::Failed {
                rule: other.unwrap_or(rule),
                seen: self.journal.redact(&seen).into_owned(),
            },
            Ok(Err(panic)) => {
                let seen = format!("the check panicked: {}", panic_text(&*panic));
                Outcome::Failed {
                    rule,
                    seen: self.journal.redact(&seen).into_owned(),
                }
            }
            Err(_) => Outcome::Failed {
                rule,
                seen: format!("the check had not ended after {limit:?}"),
            },
        };
        self.checks.push(Check {
            rule,
            name,
            outcome,
            took: started.elapsed(),
        });
    }
}
