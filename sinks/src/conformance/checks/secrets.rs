//! "Keep payloads and secrets out of errors": looks at every text of every error and
//! refusal that was seen in the other checks.
//!
//! Each payload of the kit holds a word that is nowhere else, in its data, its subject and
//! its tenant.

use futures_util::FutureExt;
use futures_util::future::ready;

use crate::conformance::finding::{Finding, Stop};
use crate::conformance::scene::Scene;
use crate::conformance::suite::Suite;
use crate::conformance::{Destination, Rule};

pub(super) async fn checks<D: Destination>(suite: &mut Suite<'_, D>) {
    suite
        .check(
            Rule::Secrets,
            "no error shows a secret or a payload",
            |scene| ready(stay_hidden(scene)).boxed(),
        )
        .await;
}

fn stay_hidden<D: Destination>(scene: &Scene<'_, D>) -> Finding {
    match scene.journal.leaks() {
        (0, _) => Err(Stop::not_applicable(
            "no check has seen an error or a refusal",
        )),
        (_, leaks) if leaks.is_empty() => Ok(()),
        (texts, leaks) => Err(Stop::own(format!(
            "of {texts} errors and refusals, these and perhaps more: {}",
            leaks.join("; ")
        ))),
    }
}
